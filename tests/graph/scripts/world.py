"""A host written by hand, and runtimes that are closed at the end of a test."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from toolnexus.graph.scripts import (
    Handle,
    JsRuntime,
    LuaRuntime,
    Method,
    ScriptError,
    ScriptFailure,
    ScriptRuntime,
    Signal,
)

LANGUAGES = ("js", "lua")
SURFACE: Mapping[str, tuple[str | Method, ...]] = {
    "board": (
        "getVar",
        Method("setVar", "err"),
        Method("resolve", "value, err"),
        "open",
        Method("typed", "value, err"),
    ),
    "host": ("fail", Method("refuse", "err"), "crash"),
    "runtime": ("execScript",),
}
CONSTANTS = {"board": {"MAIN_CHANNEL": "__main_channel"}, "limits": {"most": 3}}


def runtime(language: str, **options: Any) -> ScriptRuntime:
    return JsRuntime(**options) if language == "js" else LuaRuntime(**options)


class World:
    """One runtime over a host that keeps variables and remembers what it was asked."""

    def __init__(self, language: str, **options: Any) -> None:
        self.language = language
        self.runtime = runtime(language, **options)
        self.vars: dict[str, Any] = {}
        self.asked: list[tuple[str, list[Any]]] = []

    async def host(self, path: str, args: list[Any]) -> Any:
        self.asked.append((path, args))
        match path:
            case "board.getVar":
                return self.vars.get(args[0])
            case "board.setVar":
                self.vars[args[0]] = args[1]
            case "board.resolve":
                raise ScriptError("validation", f"no variable {args[0]!r}")
            case "board.open":
                return Handle("h1", ("next", Method("close", "err")))
            case "board.typed":
                return Handle("h2", (Method("peek", "value"),))
            case "h1.next" | "h2.peek":
                return len(self.asked)
            case "h1.close":
                raise ScriptError("conflict", "closed before")
            case "host.fail" | "host.refuse":
                raise ScriptError(args[0], "refused by the host")
            case "host.crash":
                raise KeyError("a fault of the host")
            case _:
                raise AssertionError(path)
        return None

    async def run(self, source: str | Mapping[str, str], config: Any = None) -> Signal | None:
        """Execute the source, or the one of the language."""
        source = source if isinstance(source, str) else source[self.language]
        return await self.runtime.exec("node", source, config, SURFACE, self.host, CONSTANTS)

    async def out(self, source: str | Mapping[str, str], config: Any = None) -> Any:
        """What the script sets the variable `out` to."""
        self.vars.pop("out", None)
        await self.run(source, config)
        return self.vars["out"]

    async def failure(self, source: str | Mapping[str, str]) -> ScriptFailure:
        try:
            ended = await self.run(source)
        except ScriptFailure as failure:
            return failure
        raise AssertionError(f"it ended with {ended}")


@asynccontextmanager
async def world(language: str, **options: Any) -> AsyncGenerator[World]:
    made = World(language, **{"pool_size": 1, **options})
    try:
        yield made
    finally:
        await made.runtime.close()


def children() -> set[int]:
    """The processes of scripts that we started, from /proc."""
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        for pid in map(int, (thread / "children").read_text().split()):
            try:
                if b"worker.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.add(pid)
            except OSError:
                pass
    return found


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
