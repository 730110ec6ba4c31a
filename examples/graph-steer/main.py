"""Saying something to a run on its way: it is read where the document has a node for it.

What to look at: the person speaks while the tool runs; the message stands behind the result of the tool and
before the next request, so the model reads a valid conversation; nothing is interrupted.
"""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

from script import scripted

from toolnexus import Client, ToolStarted, graph, tool

HERE = Path(__file__).parent


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    spoken = asyncio.Event()

    @tool
    async def measure(place: str) -> str:
        """Measure the temperature at a place."""
        await spoken.wait()
        return f"{place}: 19 degrees Celsius"

    runtime = graph.JsRuntime(pool_size=1)
    async with Client(model=model, builtins=False, tools=[measure]) as client:
        talk = graph.load(HERE / "talk.yaml", replace(client.services, scripts={"js": runtime}))
        async with client.stream("How warm is it in Rome?", target=talk, conversation="rome") as stream:
            async for event in stream:
                if isinstance(event, ToolStarted):
                    client.steer("rome", "In Fahrenheit, please.")
                    spoken.set()
        for message in stream.result.messages:
            calls = [call.name for call in message.tool_calls]
            results = [result.output for result in message.tool_results]
            print(f"{message.role}: {message.text or calls or results}")
    await runtime.close()


if __name__ == "__main__":
    asyncio.run(main())
