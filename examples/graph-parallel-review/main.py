"""Reviewers at once: the nodes of one wave run in parallel, each on a board of its own, merged in its order.

What to look at: the slow reviewer starts first and ends last, but what it found stands first; the third is
skipped by a condition; the verdict runs once, because all three lead to it in the same wave.
"""

import asyncio
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

from script import scripted

from toolnexus import Agent, Client, GraphEvent, NodeFinished, NodeStarted, graph

HERE = Path(__file__).parent
CHANGE = "def pay(amount): return charge(amount) or charge(amount)"

REVIEWERS = [
    Agent(name="bugs", system_prompt="Name the worst bug in a few words.", tools=[]),
    Agent(name="style", system_prompt="Say what is unclear in a few words.", tools=[]),
    Agent(name="secrets", system_prompt="Name secrets that are written down.", tools=[]),
]


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)
    logging.basicConfig(stream=sys.stdout, format="note: %(message)s")

    runtime = graph.JsRuntime(pool_size=1)
    async with Client(model=model, builtins=False, agents=REVIEWERS) as client:
        review = graph.load(
            HERE / "review.yaml",
            replace(client.services, scripts={"js": runtime}),
            graph.BuildOptions(parallel=graph.ParallelOptions(enabled=True, branch_timeout="60s")),
        )
        async with client.stream(f"Review this change: {CHANGE}", target=review) as stream:
            async for event in stream:
                if isinstance(event, NodeStarted):
                    print(f"{event.node[0]} starts")
                elif isinstance(event, NodeFinished):
                    print(f"{event.node[0]}: {event.status}")
                elif isinstance(event, GraphEvent) and ".parallel." in event.subject:
                    print(event.subject.rpartition(".")[2], *event.payload["branches"])
    result = stream.result
    print(f"\n{result.text}\n{result.usage.total_tokens} tokens, {len(result.sub_agents)} reviewers")
    await runtime.close()


if __name__ == "__main__":
    asyncio.run(main())
