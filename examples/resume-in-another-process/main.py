"""A run that waits for an approval, and goes on in another process that has nothing but the store.

What to look at: `permissions` make a command ask; nobody answers in place, so the run ends `pending`.
The second process finds the question in the store, answers it, and the very command that was shown
runs, once. The sub-agent that was finished before does not run again.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from script import scripted

from toolnexus import Agent, Answer, Client, SqliteStore

agents = [Agent(name="counter", description="Counts files.", tools=["glob"])]


def client(folder: Path) -> Client:
    return Client(
        model=os.environ.get("TOOLNEXUS_MODEL") or scripted,
        builtins=["bash", "glob"],
        agents=agents,
        permissions={"bash": "ask", "bash(echo *)": "allow"},
        store=SqliteStore(folder / "chat.db"),
        workdir=folder,
    )


async def begin(folder: Path) -> None:
    async with client(folder) as c:
        result = await c.ask("Count the files, then make notes.md.", conversation="ann")
    print(f"first process: {result.status}, {result.usage.requests} requests: {result.text}")


async def go_on(folder: Path) -> None:
    async with client(folder) as c:
        for request in await c.conversation("ann").pending():
            print(f"second process: {request.kind} of {(request.data or {})['arguments']}")
            result = await c.resume("ann", [Answer(id=request.id)])
            print(f"second process: {result.status}, {result.usage.requests} requests: {result.text}")


def main() -> None:
    if len(sys.argv) > 1:
        asyncio.run({"begin": begin, "go_on": go_on}[sys.argv[1]](Path(sys.argv[2])))
        return
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)
    with tempfile.TemporaryDirectory() as folder:
        for step in ("begin", "go_on"):
            done = subprocess.run([sys.executable, __file__, step, folder], capture_output=True, text=True)
            print(done.stdout + done.stderr, end="")
        print("notes.md:", (Path(folder) / "notes.md").exists())


if __name__ == "__main__":
    main()
