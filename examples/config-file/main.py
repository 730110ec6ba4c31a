"""A client as one document: model, tools, limits and agents stand in toolnexus.toml.

What to look at: the program holds only what a document cannot, here the scripted model; what is wrong
with a document is told all at once, with key and remedy.
"""

import asyncio
import os
from pathlib import Path

from script import scripted

from toolnexus import ConfigError, load

HERE = Path(__file__).parent
MISTAKEN = {
    "builtins": ["raed"],
    "agents": {"reader": {"max_turn": 6, "agents": ["chekcer"]}, "checker": {}},
    "store": "${NOT_SET}/chat.db",
}


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    async with load(HERE / "toolnexus.toml", model=model) as client:
        print("tools:", ", ".join(client.toolkit.names()))
        result = await client.ask("Can we release?")

    print("\nwho did what:")
    for child in result.sub_agents:
        for answer in (a for message in child.messages for a in message.tool_results):
            print(f"  {child.path[-1]}: {answer.output.strip().splitlines()[0]}")
        print(f"  {child.path[-1]} answers: {child.text}")
    print(f"\n{result.text}")

    try:
        load(MISTAKEN)
    except ConfigError as error:
        print(f"\na document with mistakes:\n{error}")


if __name__ == "__main__":
    asyncio.run(main())
