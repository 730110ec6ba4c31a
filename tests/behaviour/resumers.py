"""Processes that work on one conversation, some of which die: `python resumers.py DRIVER…`.

Each line on standard input is a list of jobs, which run at once, each in a process of its own forked
from this one; the answer is a line with a list of what each did.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from toolnexus import (
    Agent,
    Answer,
    Client,
    FunctionModel,
    ModelRequest,
    RunError,
    Store,
    ToolCallPart,
    ToolContext,
    ToolResult,
    assistant,
    pending,
    tool,
)
from toolnexus.stores.address import store_at


def use(id: str, name: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(id, name, json.dumps(arguments))


PAYS = [use("1", "pay", to="ann"), use("2", "look"), use("3", "pay", to="bob")]


def say(request: ModelRequest) -> Any:
    """Two payments and a look; with a teller they are his, next to a look of the caller."""
    if any(message.role == "tool" for message in request.messages):
        return f"end of {request.agent}"
    if request.agent == "main" and "task" in {tool.name for tool in request.tools}:
        return assistant("", use("a", "task", agent="teller", prompt="pay"), use("b", "look"))
    return assistant("", *PAYS)


class Job:
    """One process: `do` something on the store `path`, and die at a point, if any."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.job = job
        self.log: str = job["path"] + ".log"
        self.kill: str = job.get("kill", "")
        self.writes = 0

    def at(self, point: str) -> None:
        if point == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)

    def store(self) -> Store:
        store = store_at(self.job.get("store", self.job["path"]))
        append = store.append

        async def mortal(*args: Any) -> int:
            self.writes += 1
            n = self.writes
            self.at(f"before write {n}")
            version = await append(*args)
            self.at(f"after write {n}")
            return version

        setattr(store, "append", mortal)  # noqa: B010
        return store

    def tools(self) -> list[Any]:
        def did(what: str) -> str:
            self.at(f"before {what}")
            with open(self.log, "a") as log:
                log.write(what + "\n")
            self.at(f"after {what}")
            return what

        @tool
        async def pay(to: str, ctx: ToolContext) -> str | ToolResult:
            """Pay somebody."""
            if ctx.answer is None:
                return pending(kind="approval", prompt=f"pay {to}?")
            await asyncio.sleep(0.01)  # so that the two payments of a batch overlap
            return did(f"pay {to}")

        @tool(idempotent=True)
        async def look() -> str:
            """Look."""
            return did("look")

        return [pay, look]

    async def run(self) -> list[Any]:
        job = self.job
        teller = [Agent(name="teller", tools=["pay", "look"])] if job.get("teller") else []
        builtins = ["task"] if teller else False
        options: dict[str, Any] = {"builtins": builtins, "agents": teller, "tools": self.tools()}
        async with Client(model=FunctionModel(say), store=self.store(), **options) as client:
            chat = client.conversation("c")
            try:
                if job["do"] == "give up":
                    await chat.discard_pending()
                    return ["given up"]
                if job["do"] == "ask":
                    result = await chat.ask("go")
                else:
                    answers = [Answer(id=id, ok=ok) for id, ok in job.get("answers", {}).items()]
                    result = await client.resume("c", answers)
            except RunError as error:
                return [type(error).__name__, str(error)]
            return [result.status, result.text, {r.prompt: r.id for r in result.pending}]


def start(job: Mapping[str, Any], gate: int) -> tuple[int, int]:
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    os.read(gate, 1)  # all begin at once
    try:
        said = asyncio.run(Job(job).run())
    except BaseException as error:
        said = ["crash", repr(error)]
    os.write(write, json.dumps(said).encode())
    os._exit(0)


def load_everything() -> None:
    """Whatever the jobs import at first use, once for all of them."""
    for driver in sys.argv[1:]:
        importlib.import_module(driver)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/x.db"
        asyncio.run(Job({"do": "ask", "path": path, "teller": True}).run())


def main() -> None:
    load_everything()
    for line in sys.stdin:
        gate, go = os.pipe()
        started = [start(job, gate) for job in json.loads(line)]
        os.write(go, b"x" * len(started))
        out: list[Any] = []
        for child, read in started:
            with open(read) as said:
                text = said.read()
            _, status = os.waitpid(child, 0)
            out.append(json.loads(text) if text else ["killed", status])
        os.close(gate)
        os.close(go)
        print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
