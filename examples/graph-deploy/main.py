"""Two agents as one document: deploy.yaml says what there is, this program brings a model and a referee.

What to look at: the desk runs the writer as one of its nodes; a referee of the host sends the first draft
back; the type of nodes `count` is a script. A document
without impls of a host is offered to others by `toolnexus serve --config`.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from script import scripted

from toolnexus import Client, graph
from toolnexus.graph import Board, ResourceInput
from toolnexus.models.registry import resolve

HERE = Path(__file__).parent


def models(given: ResourceInput) -> dict[str, Any]:
    """One model, whatever it is called."""
    return {"any/model": resolve(os.environ.get("TOOLNEXUS_MODEL") or scripted)}


def short(given: ResourceInput) -> Any:
    """A referee who wants less."""

    def referee(board: Board) -> str | None:
        length = len(board.main[-1].text)
        print(f"the referee reads {length} characters")
        return "Shorter, please." if length > given.settings["most"] else None

    return referee


async def main() -> None:
    print("model:", os.environ.get("TOOLNEXUS_MODEL") or scripted.name)
    registry = graph.ResourceRegistry.standard()
    registry.register("inference.Provider", "scripted", models)
    registry.register("hook.referee", "short", short, settings=dict)
    async with (
        graph.deploy(HERE / "deploy.yaml", registry=registry) as deployment,
        Client(builtins=False) as client,
    ):
        print("agents:", ", ".join(deployment.agents))
        result = await client.run(deployment.agents["desk"], {"topic": "rain"})
        print(f"{result.output['words']} words: {result.output['text']}")
        print(f"the writer took {result.sub_agents[0].turns} requests")


if __name__ == "__main__":
    asyncio.run(main())
