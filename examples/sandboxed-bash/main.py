"""Commands of a model in a sandbox.

What to look at: the same shell, the same rights, and yet nothing is written outside of the folder and
nobody is reached. The result of a command that fails says that it was in a sandbox, so that the model
need not guess.
"""

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from script import scripted

from toolnexus import Client, RunResult

PROMPT = (
    "Try three shell commands at once: write inside.txt here, write ../outside.txt, and open a connection "
    "to port $DEMO_PORT of this machine. Tell me what worked."
)


async def ask(folder: Path) -> RunResult:
    """Let a model loose in `folder`, while a server of this machine counts its visitors."""
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)
    visitors: list[str] = []

    async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visitors.append("somebody")
        writer.close()

    options = {"tools": ["bash"], "sandbox": True}
    async with await asyncio.start_server(welcome, "127.0.0.1", 0) as server:
        os.environ["DEMO_PORT"] = str(server.sockets[0].getsockname()[1])
        async with Client(model=model, builtins=options, workdir=folder) as client:
            result = await client.ask(PROMPT)
    print("connections to this machine:", len(visitors))
    return result


def main() -> None:
    with TemporaryDirectory() as home:
        folder = Path(home, "project")
        folder.mkdir()
        result = asyncio.run(ask(folder))
        print("in the folder:", sorted(path.name for path in folder.iterdir()))
        print("outside of it:", sorted(path.name for path in Path(home).iterdir()))
    for message in result.messages:
        for call in message.tool_calls:
            print(f"\n{call.id}: {call.arguments}")
        for answer in message.tool_results:
            print(f"\n{answer.call_id} said:\n{answer.output.replace(home, '…').strip()}")
    print(f"\n{result.text}")


if __name__ == "__main__":
    main()
