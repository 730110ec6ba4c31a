"""The builtin `bash`."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolnexus.core.tools import ToolResult
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.runtime.threads import run_in_thread
from toolnexus.tools.builtin.environment import SECRET_ENV, child_environment
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.builtin.output_file import OutputFile
from toolnexus.tools.builtin.paths import directory
from toolnexus.tools.builtin.process import End, Process, turn_to_start
from toolnexus.tools.builtin.process_table import Row
from toolnexus.tools.builtin.survivors import PROCESSES
from toolnexus.tools.builtin.tree import Tree

_LIMITS = definition("bash").limits
_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a command ended, and what it left in the background."""

    how: End
    code: int
    background: Sequence[Row]
    stopped: bool
    """Whether the background processes were killed, because nobody would do it later."""


async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    """Run one command to its end, its time limit, or the end of its run."""
    if os.name != "posix":
        raise ToolError("bash needs Linux, macOS or another POSIX system")
    cwd = await run_in_thread(lambda: directory(str(arguments.get("workdir") or "."), ctx))
    asked = int(arguments.get("timeout") or _LIMITS["defaultTimeoutMilliseconds"])
    seconds = min(asked, _LIMITS["maxTimeoutMilliseconds"]) / 1000
    output = OutputFile()
    try:
        ended = await _run(str(arguments["command"]), cwd, seconds, output, ctx)
        output.cut(_LIMITS["maxOutputBytes"])
        return await run_in_thread(lambda: _result(ended, seconds, output, ctx))
    finally:
        output.close()


async def _run(command: str, cwd: Path, seconds: float, output: OutputFile, ctx: ToolContext) -> _Ended:
    """Whatever goes wrong here, and also a cancel, leaves no process behind."""
    mark = secrets.token_hex(8)
    await turn_to_start()
    named = ctx.get(SECRET_ENV)
    process = _start(command, cwd, output, child_environment(named() if named else frozenset(), mark))
    tree = Tree(process.pid, mark)
    try:
        how = await process.wait(seconds, output.size, _LIMITS["maxOutputBytes"])
        if how == "timeout":
            await _terminate(process, tree)
        elif how == "flood":
            process.kill()
            await run_in_thread(tree.kill)
        background = await run_in_thread(tree.living)
        code = process.reap()
        tree.reaped()
        if background:
            background = await run_in_thread(tree.living)
        stopped = bool(background) and not await _keep(tree, output, ctx)
        return _Ended(how, code, background, stopped)
    except BaseException:
        process.kill()
        tree.kill()
        process.reap()
        raise


def _start(command: str, cwd: Path, output: OutputFile, env: Mapping[str, str]) -> Process:
    shell = shutil.which("bash") or "/bin/sh"
    try:
        return Process([shell, "-c", command], cwd=cwd, output=output.descriptor, env=env)
    except (OSError, ValueError) as error:
        too_long = isinstance(error, OSError) and error.errno == errno.E2BIG
        reason = "it is too long; write it to a file and run that" if too_long else error
        raise ToolError(f"the command cannot be started: {reason}") from error


async def _terminate(process: Process, tree: Tree) -> None:
    """Ask everybody to end, and after a moment of grace end them."""
    end = time.monotonic() + _LIMITS["graceSeconds"]
    await run_in_thread(tree.signal, signal.SIGTERM)
    while time.monotonic() < end:
        if process.exited() and not await run_in_thread(tree.living):
            return
        await asyncio.sleep(_PAUSE)
    process.kill()
    await run_in_thread(tree.kill)


async def _keep(tree: Tree, output: OutputFile, ctx: ToolContext) -> bool:
    """Leave background processes to the client; without one they are killed."""
    keeper = ctx.get(PROCESSES)
    if keeper is None or keeper.closed:
        await run_in_thread(tree.kill)
        return False
    kept = await run_in_thread(output.keep, ctx.context.run.spill)
    keeper.add(tree, kept, _LIMITS["maxOutputBytes"])
    return not keeper.closed


def _result(ended: _Ended, seconds: float, output: OutputFile, ctx: ToolContext) -> ToolResult:
    text = output.text(_LIMITS["maxTextBytes"])
    if output.size() > _LIMITS["maxTextBytes"]:
        output.keep(ctx.context.run.spill)
    code = ended.code if ended.code >= 0 else 128 - ended.code
    metadata: dict[str, Any] = {"exitCode": code, "timedOut": ended.how == "timeout"}
    if ended.background and not ended.stopped:
        metadata["survivors"] = [{"pid": abs(row.pid), "name": row.name} for row in ended.background]
    notes = _notes(ended, seconds, output)
    if code:
        notes.append(f"[exit code {code}]")
    elif not (text or notes):
        notes.append("[no output]")
    if text and notes and not text.endswith("\n"):
        text += "\n"
    failed = bool(code) or ended.how != "exit"
    return ToolResult(output=text + "\n".join(notes), is_error=failed, metadata=metadata)


def _notes(ended: _Ended, seconds: float, output: OutputFile) -> list[str]:
    notes: list[str] = []
    if output.kept is not None:
        notes.append(f"[the output is in {output.kept}]")
    if ended.background:
        who = ", ".join([f"{abs(row.pid)} ({row.name})" for row in ended.background])
        what = (
            "left running processes, which were stopped"
            if ended.stopped
            else "still running in the background"
        )
        notes.append(f"[{what}: {who}]")
    if ended.how == "timeout":
        notes.append(f"[timed out after {seconds:g} s: the command and all that it started were stopped]")
    elif ended.how == "flood":
        notes.append(f"[more than {_LIMITS['maxOutputBytes']} bytes of output: the command was killed]")
    return notes
