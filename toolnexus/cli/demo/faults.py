"""Breaking the demo while it runs, and telling from what happened what held."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolnexus.cli.demo.kit import REPORT
from toolnexus.cli.demo.program import EXPLORE
from toolnexus.cli.view.words import one_line, plural
from toolnexus.core.events import Event, ToolFinished
from toolnexus.core.result import RunResult
from toolnexus.core.tools import ToolResult
from toolnexus.core.usage import Budget
from toolnexus.runtime.context import ToolContext
from toolnexus.runtime.hooks import Hooks

DEADLINE = 2.0
"""Seconds that a child gets beyond its thinking when its server hangs."""
_MID_CALL = 0.2
_SERVER = re.compile(r"process (\d+) serves")


class Fault:
    """One thing that goes wrong. Feed it every event; `account` tells the story afterwards."""

    def __init__(self, think: float) -> None:
        """`think` is how long a turn of the model takes, in seconds."""
        self.think = think
        self.broken = ""
        """What was broken; empty while nothing was."""
        self._errors: list[tuple[str, str]] = []
        self._good_after = 0

    def options(self) -> dict[str, Any]:
        """What the demo's client is made with, to have the fault."""
        return {}

    def feed(self, event: Event) -> None:
        """Take one event."""
        if not self.broken or not isinstance(event, ToolFinished):
            return
        if event.result.is_error:
            agent = event.path[-1].partition(".")[0]
            said = one_line(event.result.output).removesuffix(" Its text so far:")
            self._errors.append((f"{event.name} of {agent}", said))
        elif len(event.path) > 1:
            self._good_after += 1

    def release(self) -> None:
        """Undo what would keep the demo from closing."""

    def account(self, result: RunResult, folder: Path) -> list[str]:
        """What was broken and what held, by what was seen."""
        if not self.broken:
            return ["broken   nothing: no call was made that could be broken"]
        lines = [f"broken   {self.broken}"]
        lines += [f"         {call}: {said}" for call, said in self._errors]
        ends = [f"{child.path[-1].partition('.')[0]} {child.status}" for child in result.sub_agents]
        lines.append(f"held     the runs ended: {', '.join([*ends, f'main {result.status}'])}")
        if self._good_after:
            lines.append(f"         {plural(self._good_after, 'call')} of the children worked all the same")
        if result.limits_hit:
            hits = ", ".join(f"{hit} of {'/'.join(hit.scope)}" for hit in result.limits_hit)
            lines.append(f"         limits hit: {hits}")
        there = "is there" if (folder / REPORT).exists() else "was not written"
        lines.append(f"         {REPORT} {there}")
        return lines


class _ServerHook(Hooks):
    """Learns the server's process from its own listing, and strikes at the first file that is read."""

    def __init__(self, strike: Callable[[int], None]) -> None:
        self._strike = strike
        self._pid: int | None = None
        self._done = False

    def after_tool(self, ctx: ToolContext, result: ToolResult) -> None:
        if ctx.tool.name == "files_list" and (match := _SERVER.match(result.output)):
            self._pid = int(match[1])

    def before_tool(self, ctx: ToolContext) -> None:
        if ctx.tool.name == "files_read" and self._pid is not None and not self._done:
            self._done = True
            self._strike(self._pid)


class KillServer(Fault):
    """SIGKILL to the MCP server while it has a call. It is held first, so that it cannot answer before."""

    def options(self) -> dict[str, Any]:
        return {"hooks": [_ServerHook(self._strike)]}

    def _strike(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        asyncio.get_running_loop().call_later(_MID_CALL, self._kill, pid)

    def _kill(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.broken = f"the MCP server (process {pid}) was killed while it had a call of explore"


class Hang(Fault):
    """The MCP server stops answering for ever, and explore has a deadline."""

    def __init__(self, think: float) -> None:
        super().__init__(think)
        self.deadline = DEADLINE + 3 * think
        self._frozen: int | None = None

    def options(self) -> dict[str, Any]:
        explore = replace(EXPLORE, budget=Budget(seconds=self.deadline))
        return {"hooks": [_ServerHook(self._strike)], "explore": explore}

    def _strike(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        self._frozen = pid
        self.broken = (
            f"the MCP server (process {pid}) was frozen; explore has a budget of {self.deadline:g} s"
        )

    def release(self) -> None:
        if self._frozen is not None:
            with suppress(ProcessLookupError):
                os.kill(self._frozen, signal.SIGCONT)


class Deny(Fault):
    """A hook of the host forbids every write."""

    def options(self) -> dict[str, Any]:
        return {"hooks": [self]}

    def before_tool(self, ctx: ToolContext) -> ToolResult | None:
        """Answer instead of the tool."""
        if ctx.tool.name != "write":
            return None
        self.broken = f"a hook denied the write of {'/'.join(ctx.path)}"
        return ToolResult(output="denied by the host: nothing may be written here", is_error=True)


class OneChild(Fault):
    """Only one sub-agent may be started."""

    def options(self) -> dict[str, Any]:
        self.broken = "only one sub-agent was allowed (max_sub_agents=1)"
        return {"max_sub_agents": 1}


KINDS: dict[str, type[Fault]] = {"kill-server": KillServer, "hang": Hang, "deny": Deny, "limit": OneChild}
