"""Agents from Markdown files: the header says what an agent may use, the rest is its system prompt.

What to look at: the names of tools in the files become ours; what cannot be had here is left out and
logged, never widened; the reviewer has no bash, also when its model tries.
"""

import asyncio
import logging
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from script import scripted

from toolnexus import Client, load_agents

HERE = Path(__file__).parent


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    print("\nnot carried over:")
    logging.basicConfig(stream=sys.stdout, format="  %(message)s")
    agents = load_agents(HERE / "agents")

    print("\nthe agents:")
    for agent in agents:
        print(f"  {agent.name}: {agent.tools}")

    with TemporaryDirectory() as folder:
        (Path(folder) / "notes.txt").write_text("Release on Friday. Tell support.\n")
        async with Client(
            model=model, builtins=["read", "grep", "glob", "bash"], agents=agents, workdir=folder
        ) as client:
            result = await client.ask(
                "Have the reviewer read notes.txt and count its words with wc, and the runner count them."
            )

    print("\nwho did what:")
    for child in result.sub_agents:
        names = {call.id: call.name for message in child.messages for call in message.tool_calls}
        for answer in (a for message in child.messages for a in message.tool_results):
            verdict = "refused" if answer.is_error else "ran"
            print(f"  {child.path[-1]}: {names[answer.call_id]} {verdict}: {answer.output.strip()}")
    print(f"\n{result.text}")


if __name__ == "__main__":
    asyncio.run(main())
