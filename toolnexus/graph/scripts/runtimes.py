"""The script runtimes: JavaScript and Lua, each script in a child process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from toolnexus.core.options import count, install, seconds
from toolnexus.errors import ConfigError
from toolnexus.graph.durations import parse_duration
from toolnexus.graph.scripts.execution import Execution
from toolnexus.graph.scripts.messages import DEEPEST, MOST_BYTES, MOST_VALUES
from toolnexus.graph.scripts.pool import Pool
from toolnexus.graph.scripts.runtime import (
    ERROR_KINDS,
    INTERRUPT_KINDS,
    JSON,
    Constants,
    HostCall,
    Signal,
    Surface,
)

MEMORY_LIMIT = 64 << 20
_LEAST_MEMORY = 1 << 20
_MOST_CALLS = 5000


class _ChildRuntime:
    """What the languages share: an execution takes a child of the pool and gives it back."""

    language: ClassVar[str]
    supports_nested = True
    _package: ClassVar[str]

    def __init__(
        self,
        pool_size: int | None,
        max_exec_time: float | str,
        memory_limit: int,
        grace: float,
        stack: int = 0,
    ) -> None:
        kind = type(self).__name__
        if pool_size is None:
            pool_size = os.cpu_count() or 1
        count(f"{kind}: pool_size", pool_size, 1)
        count(f"{kind}: memory_limit", memory_limit, _LEAST_MEMORY, " (bytes)")
        seconds(f"{kind}: grace", grace)
        self._limit = _duration(f"{kind}: max_exec_time", max_exec_time)
        self._grace = float(grace)
        if os.name != "posix":
            raise ConfigError(f"{kind} needs a POSIX system: Linux, macOS or WSL")
        found = find_spec(self._package)
        if found is None or found.origin is None:
            raise ConfigError(f"{kind} needs {self._package}: {install(f'graph-{self.language}')}")
        settings: Mapping[str, Any] = {
            "language": self.language,
            "libraries": str(Path(found.origin).parents[1]),
            "memory": memory_limit,
            "stack": stack,
            "most_bytes": MOST_BYTES,
            "most_values": MOST_VALUES,
            "deepest": DEEPEST,
            "error_kinds": ERROR_KINDS,
            "interrupt_kinds": INTERRUPT_KINDS,
        }
        self._pool = Pool(pool_size, settings)

    async def exec(
        self,
        name: str,
        source: str,
        config: JSON,
        surface: Surface,
        host: HostCall,
        constants: Constants | None = None,
    ) -> Signal | None:
        """Run one script; see `ScriptRuntime.exec`. Waits for a free child first, which is no part of
        `max_exec_time`. Cancelled, it kills the child."""
        execution = Execution(name, surface, host, self._limit, self._grace)
        job = await execution.job(source, config, constants or {})
        async with self._pool.child() as child:
            return await execution.run(self._pool, child, job)

    async def close(self) -> None:
        """End every child, also those at work; `exec` raises `ScriptFailure` (`not_available`) then."""
        await self._pool.close()


class JsRuntime(_ChildRuntime):
    """JavaScript (ES2023, QuickJS), each execution with fresh globals in a child process.

    * `pool_size`: how many scripts of one event loop run at once; None: one for each CPU. Children are
      started when needed, and end with `close()`, with the event loop and with the process.
    * `max_exec_time`: how long one execution may take, host calls included, in seconds or as a duration
      (`"30s"`); 0 for no limit. A script that does not stop then is killed after `grace` seconds.
    * `max_call_stack_size`: how deep the calls of a script may nest, about: 1 to 5000. Large functions
      take the room of several.
    * `memory_limit`: bytes of the heap of one script.

    Raises `ConfigError` for a wrong option, and when jsbox is not installed.
    """

    language = "js"
    _package = "jsbox"

    def __init__(
        self,
        *,
        pool_size: int | None = None,
        max_exec_time: float | str = "30s",
        max_call_stack_size: int = 1000,
        memory_limit: int = MEMORY_LIMIT,
        grace: float = 0.5,
    ) -> None:
        count("JsRuntime: max_call_stack_size", max_call_stack_size, 1)
        if max_call_stack_size > _MOST_CALLS:
            raise ConfigError(
                f"JsRuntime: max_call_stack_size={max_call_stack_size} must be {_MOST_CALLS} or less"
            )
        super().__init__(pool_size, max_exec_time, memory_limit, grace, max_call_stack_size)


class LuaRuntime(_ChildRuntime):
    """Lua 5.4, each execution with fresh globals in a child process. The options are those of `JsRuntime`.

    Raises `ConfigError` for a wrong option, and when lupa is not installed.
    """

    language = "lua"
    _package = "lupa"

    def __init__(
        self,
        *,
        pool_size: int | None = None,
        max_exec_time: float | str = "30s",
        memory_limit: int = MEMORY_LIMIT,
        grace: float = 0.5,
    ) -> None:
        super().__init__(pool_size, max_exec_time, memory_limit, grace)


def _duration(option: str, value: float | str) -> float:
    if isinstance(value, str):
        try:
            value = parse_duration(value)
        except ValueError as error:
            raise ConfigError(f"{option}: {error}") from error
    seconds(option, value, ", or a duration such as '30s'; 0 for no limit")
    return float(value)
