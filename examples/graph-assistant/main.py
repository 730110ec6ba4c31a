"""A chat with tools as a document: assistant.yaml says what happens, this program only starts it.

What to look at: the loop chat → tools → chat is two edges with a condition each; the tools and the model are
the client's; the last node is a script in a file of its own. What is probably not meant is a note.
"""

import asyncio
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

from script import scripted

from toolnexus import Client, GraphEvent, NodeFinished, graph, tool

HERE = Path(__file__).parent
LOG = {3: "Took a second anchor aboard at Rabat.", 9: "Lost the first anchor off Faro."}


@tool
async def read_day(day: int) -> str:
    """Read what the log says about one day."""
    return LOG.get(day, "All well.")


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)
    logging.basicConfig(stream=sys.stdout, format="note: %(message)s")

    definition = graph.GraphDefinition.from_file(HERE / "assistant.yaml")
    runtime = graph.JsRuntime(pool_size=1)
    kept = graph.MemoryCheckpoints()
    async with Client(model=model, builtins=False, tools=[read_day]) as client:
        assistant = graph.build(
            definition, graph.Registry.standard(replace(client.services, scripts={"js": runtime}))
        )
        assistant.checkpoints = kept
        async with client.stream("How many anchors do we have left?", target=assistant) as stream:
            async for event in stream:
                if isinstance(event, NodeFinished):
                    print(f"{event.node[0]} ({event.kind}): {event.status}")
                if isinstance(event, GraphEvent) and event.payload.get("part", {}).get("type") == "text":
                    print(f"  it says: {event.payload['part']['text']}")
        print(stream.result.text)
        for run in await kept.list():
            point = await kept.load(run)
            assert point is not None and point.board is not None
            print(f"last checkpoint: behind {list(point.steps)}, {point.iteration} nodes were routed")
            print(f"its variables: {sorted(point.board.vars)}")
    await runtime.close()


if __name__ == "__main__":
    asyncio.run(main())
