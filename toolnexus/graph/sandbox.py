"""Sandbox: where commands of scripts run, which ones, and for how long."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from toolnexus.core.options import seconds
from toolnexus.errors import ConfigError, ToolError
from toolnexus.graph.durations import parse_duration
from toolnexus.graph.errors import GraphRunError
from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.threads import run_in_thread
from toolnexus.tools.builtin.environment import child_environment
from toolnexus.tools.builtin.output_file import OutputFile
from toolnexus.tools.builtin.process import End, Process, turn_to_start
from toolnexus.tools.builtin.sandbox import ENVIRONMENT, bubblewrap
from toolnexus.tools.builtin.tree import Tree

MOST_OUTPUT = 8 << 20
"""Bytes that a command may write to each of its outputs."""
MOST_TEXT = 1 << 20
"""Bytes of an output that are given back; of more, its beginning and its end."""


class Completed(NamedTuple):
    """How a command ended: `exit_code` is -1 when it was refused, not started or cut off."""

    exit_code: int
    stdout: str
    stderr: str


class Sandbox:
    """Runs commands in `root`, without a shell. Nothing that a command starts outlives it.

    * `allow`: the commands that may run, as written or by their last name; None: any, `[]`: none.
    * `timeout`: how long one may take, in seconds or as a duration (`"30s"`); 0 for no limit.
    * `environment`: more variables; commands see ours without what looks secret.
    * `isolation`: whether they run behind bubblewrap, where only `root` can be written; `"auto"`: where the
      system has it. `network`: whether they reach the network there.

    Raises `ConfigError` for a folder that is none and for wrong options.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        allow: Sequence[str] | None = None,
        timeout: float | str = "30s",
        environment: Mapping[str, str] | None = None,
        isolation: Literal["auto"] | bool = "auto",
        network: bool = False,
    ) -> None:
        self.root = Path(os.path.realpath(root))
        if not self.root.is_dir():
            raise ConfigError(f"the folder of a sandbox is none: {str(root)!r}")
        self._allow = None if allow is None else commands("Sandbox: allow", allow)
        self._seconds = _seconds(timeout)
        self._environment = dict(environment or {})
        if isolation != "auto" and not isinstance(isolation, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"Sandbox: isolation is {isolation!r}; allowed are True, False and 'auto'")
        self._isolation: Literal["auto"] | bool = isolation
        self._network = network

    def __repr__(self) -> str:
        return f"Sandbox({str(self.root)!r})"

    async def exec(self, argv: Sequence[str], redact: Redactor | None = None) -> Completed:
        """Run one command to its end, or to its time limit: then all that it started is killed.

        `redact` knows what its environment may not hold. Raises `GraphRunError` (not_available) where a
        sandbox is wanted and there is none.
        """
        if not allowed(argv[0], self._allow):
            return refused(argv[0])
        if os.name != "posix":
            raise GraphRunError("shell needs Linux, macOS or another POSIX system", kind="not_available")
        try:
            walls = await run_in_thread(
                lambda: bubblewrap(str(self.root), wanted=self._isolation, network=self._network)
            )
        except ToolError as error:
            raise GraphRunError(str(error), kind="not_available") from error
        mark = secrets.token_hex(8)
        env = {**child_environment(frozenset(), redact or Redactor(), mark), **self._environment}
        if walls is not None:
            argv = [*walls, "--chdir", str(self.root), "--", *argv]
            env.update(ENVIRONMENT)
        try:
            with _output() as output, _output() as errors:
                how, code = await self._run(argv, env, mark, output, errors)
                told = errors.text(MOST_TEXT)
                if how != "exit":
                    why = f"timed out after {self._seconds:g} s" if how == "timeout" else "too much output"
                    told = f"{told}\n[{why}: the command and all that it started were killed]".lstrip()
                return Completed(code, output.text(MOST_TEXT), told)
        except (OSError, ValueError) as error:
            return Completed(-1, "", f"the command {argv[0]!r} cannot be started: {error}")

    async def _run(
        self, argv: Sequence[str], env: Mapping[str, str], mark: str, output: OutputFile, errors: OutputFile
    ) -> tuple[End, int]:
        await turn_to_start()
        out, err = output.pump, errors.pump
        process = Process(argv, cwd=self.root, output=out.descriptor, errors=err.descriptor, env=env)
        tree = Tree(process.pid, mark)
        try:
            out.started()
            err.started()
            how = await process.wait(self._seconds or float("inf"), lambda: out.full or err.full)
            process.kill()
            await run_in_thread(tree.kill)
        except BaseException:
            process.kill()
            tree.kill()
            raise
        finally:
            code = process.reap()
        out.drain()
        err.drain()
        if how != "exit":
            return how, -1
        return how, code if code >= 0 else 128 - code


@contextmanager
def _output() -> Generator[OutputFile]:
    output = OutputFile(MOST_OUTPUT)
    try:
        yield output
    finally:
        output.pump.close()
        output.close()


def commands(option: str, names: Sequence[str]) -> frozenset[str]:
    """A list of commands. Raises `ConfigError`."""
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):  # pyright: ignore
        raise ConfigError(f"{option}: give a list of commands, not {names!r}")
    return frozenset(names)


def allowed(command: str, names: frozenset[str] | None) -> bool:
    """Whether a command may run: it, or its last name, is among `names`."""
    return names is None or command in names or os.path.basename(command) in names


def refused(command: str) -> Completed:
    """What a command gives that may not run."""
    return Completed(-1, "", f"the command {command!r} is not allowed here")


def _seconds(timeout: float | str) -> float:
    if isinstance(timeout, str):
        try:
            timeout = parse_duration(timeout)
        except ValueError as error:
            raise ConfigError(f"Sandbox: timeout: {error}") from error
    seconds("Sandbox: timeout", timeout, ", or a duration such as '30s'; 0 for no limit")
    return float(timeout)
