"""The builtin `bash`."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolnexus.core.tools import ToolResult
from toolnexus.core.values import frozen
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.runtime.threads import run_in_thread
from toolnexus.tools.builtin.environment import child_environment
from toolnexus.tools.builtin.host import SECRET_ENV
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.builtin.output_file import OutputFile, Pump
from toolnexus.tools.builtin.paths import directory
from toolnexus.tools.builtin.places import folder_at
from toolnexus.tools.builtin.process import End, Process, turn_to_start
from toolnexus.tools.builtin.process_table import Row
from toolnexus.tools.builtin.sandbox import Boxed, Sandbox, sandbox, wanted
from toolnexus.tools.builtin.survivors import PROCESSES
from toolnexus.tools.builtin.tree import Tree

_LIMITS = definition("bash").limits
_PAUSE = 0.05
_PATIENCE = 1.0


@frozen()
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
    box = await sandbox(cwd, ctx)
    asked = int(arguments.get("timeout") or _LIMITS["defaultTimeoutMilliseconds"])
    seconds = min(asked, _LIMITS["maxTimeoutMilliseconds"]) / 1000
    try:
        output = OutputFile(_LIMITS["maxOutputBytes"])
    except OSError as error:
        raise _unstartable(error) from error
    try:
        ended = await _run(str(arguments["command"]), cwd, seconds, output, box, ctx)
        return await run_in_thread(lambda: _result(ended, seconds, output, box, ctx))
    finally:
        output.close()


async def _run(
    command: str, cwd: Path, seconds: float, output: OutputFile, box: Sandbox | None, ctx: ToolContext
) -> _Ended:
    """Whatever goes wrong here, and also a cancel, leaves no process behind."""
    mark = secrets.token_hex(8)
    kept = False
    try:
        await turn_to_start()
        named = ctx.get(SECRET_ENV)
        env = child_environment(named() if named else frozenset(), ctx.context.run.redact, mark)
        process = _start(command, cwd, output.pump, env, box)
        tree = Tree(process.pid, mark, boxed=box is not None)
        try:
            how = await process.wait(seconds, lambda: output.pump.full)
            if how == "timeout":
                await _terminate(process, tree)
            elif how == "flood":
                process.kill()
                await run_in_thread(tree.kill)
            code, background = await _left(process, tree, box)
            output.pump.drain()
            kept = bool(background) and box is None and await _keep(tree, output, ctx)
        except (Exception, asyncio.CancelledError):
            process.kill()
            await _through_cancels(tree.kill)
            process.reap()
            raise
        except BaseException:  # nothing can be awaited any more
            process.kill()
            tree.kill()
            process.reap()
            raise
    finally:
        if not kept:
            output.pump.close()
    if isinstance(process, Boxed) and process.broken:
        raise ToolError(f"the sandbox cannot be set up: {output.text(_LIMITS['maxTextBytes']).strip()}")
    return _Ended(how, code, background, stopped=bool(background) and not kept)


async def _left(process: Process, tree: Tree, box: Sandbox | None) -> tuple[int, list[Row]]:
    """The exit code and what the command leaves behind; a sandbox is taken down when that is known."""
    background = await run_in_thread(tree.living)
    if box is None:
        code = process.reap()
        tree.reaped()
        # the second look leaves out what was just ending
        return code, await run_in_thread(tree.living) if background else background
    if background:
        background = await run_in_thread(tree.living)
    await process.settle()
    code = process.reap()
    tree.reaped()
    return code, background


def _start(command: str, cwd: Path, pump: Pump, env: Mapping[str, str], box: Sandbox | None) -> Process:
    argv = [shutil.which("bash") or "/bin/sh", "-c", command]
    try:
        with folder_at(cwd) as folder:  # what became a link since the check leads nowhere
            if box is None:
                process = Process(argv, cwd=folder.place, output=pump.descriptor, env=env)
            else:
                process = Boxed(box, argv, cwd=folder.place, output=pump.descriptor, env=env)
    except (OSError, ValueError) as error:
        raise _unstartable(error) from error
    pump.started()
    return process


def _unstartable(error: Exception) -> ToolError:
    too_long = isinstance(error, OSError) and error.errno == errno.E2BIG
    reason = "it is too long; write it to a file and run that" if too_long else error
    return ToolError(f"the command cannot be started: {reason}")


async def _through_cancels(work: Callable[[], None]) -> None:
    """Do it in a thread whatever is cancelled meanwhile, and here when no thread is free."""
    working = asyncio.ensure_future(run_in_thread(work))
    end = time.monotonic() + _PATIENCE
    while not working.done() and (left := end - time.monotonic()) > 0:
        try:
            await asyncio.wait([working], timeout=left)
        except asyncio.CancelledError:  # the one that brought us here is raised in the end
            continue
    if not working.done() or working.cancelled():
        working.cancel()
        work()


async def _terminate(process: Process, tree: Tree) -> None:
    """Ask everybody to end, and after a moment of grace end them."""
    end = time.monotonic() + _LIMITS["graceSeconds"]
    await run_in_thread(tree.signal, signal.SIGTERM)
    while time.monotonic() < end:
        if process.done() and not await run_in_thread(tree.living):
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
    await run_in_thread(output.keep, ctx.context.run.spill)
    keeper.add(tree, output.pump)
    return not keeper.closed


def _result(
    ended: _Ended, seconds: float, output: OutputFile, box: Sandbox | None, ctx: ToolContext
) -> ToolResult:
    text = output.text(_LIMITS["maxTextBytes"])
    if output.size() > _LIMITS["maxTextBytes"]:
        output.keep(ctx.context.run.spill)
    code = ended.code if ended.code >= 0 else 128 - ended.code
    metadata: dict[str, Any] = {"exitCode": code, "timedOut": ended.how == "timeout"}
    if ended.background and not ended.stopped:
        metadata["survivors"] = [{"pid": abs(row.pid), "name": row.name} for row in ended.background]
    if wanted(ctx):
        metadata["sandbox"] = box is not None
    notes = _notes(ended, seconds, output, box)
    failed = bool(code) or ended.how != "exit"
    if code:
        notes.append(f"[exit code {code}]")
    elif not (text or notes):
        notes.append("[no output]")
    if text and notes and not text.endswith("\n"):
        text += "\n"
    return ToolResult(output=text + "\n".join(notes), is_error=failed, metadata=metadata)


def _notes(ended: _Ended, seconds: float, output: OutputFile, box: Sandbox | None) -> list[str]:
    notes: list[str] = []
    if output.kept is not None:
        notes.append(f"[the output is in {output.kept}]")
    if ended.background:
        who = ", ".join([f"{abs(row.pid)} ({row.name})" for row in ended.background])
        notes.append(f"[{_what_became_of_them(ended, box)}: {who}]")
    if ended.how == "timeout":
        notes.append(f"[timed out after {seconds:g} s: the command and all that it started were stopped]")
    elif output.pump.failure is not None:
        notes.append(f"[the output cannot be stored: {output.pump.failure}: the command was killed]")
    elif ended.how == "flood":
        notes.append(f"[more than {_LIMITS['maxOutputBytes']} bytes of output: the command was killed]")
    elif ended.code and box is not None:  # the sandbox may be why
        notes.append(box.note)
    return notes


def _what_became_of_them(ended: _Ended, box: Sandbox | None) -> str:
    if not ended.stopped:
        return "still running in the background"
    if box is not None:
        return "nothing outlives a sandbox, so these processes were stopped"
    return "left running processes, which were stopped"
