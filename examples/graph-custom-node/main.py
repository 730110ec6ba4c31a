"""Node types of your own: one in Python, one that is a script, each with what it reads and writes.

What to look at: the config of `price` is a pydantic model, and its fields may be references; `greeting` says
that it writes a variable, so a script that forgets to is an error; a document with mistakes is refused.
"""

import asyncio
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field
from script import scripted

from toolnexus import Client, graph
from toolnexus.graph import Board, NodeContext, Role

HERE = Path(__file__).parent
PRICES = {"anchor": 80, "rope": 12}
GREETING = "board.setVar('greeting', 'Good day, ' + config.name + '!');"


class Order(BaseModel):
    """The config of a `price` node."""

    model_config = ConfigDict(extra="forbid")

    article: str
    pieces: int = Field(default=1, gt=0)


def registry(services: graph.Services) -> graph.Registry:
    """The built-in node types and two of our own."""
    types = graph.Registry.standard(services)

    @types.node_type("price", config=Order, writes=[Role.var("total", required=True)])
    async def price(ctx: NodeContext, board: Board, config: Order) -> None:
        """Works out what an order costs."""
        if config.article not in PRICES:
            raise graph.GraphRunError(f"we have no {config.article!r}", kind="not_found")
        board["total"] = PRICES[config.article] * config.pieces

    types.script_type("greeting", GREETING, writes=[Role.var("greeting", required=True)])
    return types


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)
    logging.basicConfig(stream=sys.stdout, format="note: %(message)s")

    runtime = graph.JsRuntime(pool_size=1)
    definition = graph.GraphDefinition.from_file(HERE / "order.yaml")
    async with Client(model=model, builtins=False) as client:
        types = registry(replace(client.services, scripts={"js": runtime}))
        order = graph.build(definition, types)
        board = Board({"article": "anchor", "pieces": 3, "customer": "Ada"})
        board.append("", graph.Message.from_wire(QUESTION))
        print((await client.run(order, board)).text)
        try:
            await order.run(Board({"article": "whistle", "customer": "Ada"}))
        except graph.GraphRunError as error:
            print(f"{error.kind} ({error.http_status}) in {error.node_id}: {error}")
    wrong = definition.model_dump(by_alias=True)
    wrong["nodes"][0]["config"] = {"articel": "anchor"}
    wrong["edges"][0]["condition"] = "total >"
    try:
        graph.build(graph.GraphDefinition.from_data(wrong), types)
    except graph.GraphError as error:
        print(error)
    await runtime.close()


QUESTION = {"role": "user", "content": {"parts": [{"type": "text", "text": "What do three anchors cost?"}]}}

if __name__ == "__main__":
    asyncio.run(main())
