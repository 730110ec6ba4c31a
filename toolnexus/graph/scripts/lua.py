"""Lua 5.4 in the child: one state for each script."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

# of all the engines in lupa, this one: the compiled code of LuaJIT never looks at the clock
from lupa import lua54

if TYPE_CHECKING:
    from toolnexus.graph.scripts.worker import Failure, Script

lupa: Any = lua54
"""Its types say less than it takes."""
LARGEST = 1 << 63


def engine(settings: dict[str, Any]) -> Callable[[Script], Failure | None]:
    """What executes a script. `memory` is in bytes."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "prelude.lua"), "rb") as file:
        prelude = file.read()

    def execute(script: Script) -> Failure | None:
        try:
            return State(settings["memory"] >> script.depth, prelude).run(script)
        except lupa.LuaMemoryError:
            return {"kind": "internal", "message": f"{script.name}: not enough memory"}

    return execute


def deny(*_: Any) -> Any:
    raise AttributeError("denied")


class State:
    """One Lua state. Texts are bytes in it."""

    def __init__(self, memory: int, prelude: bytes) -> None:
        self._lua = lupa.LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=deny,
            max_memory=memory,
        )
        self._run, self._list = self._lua.execute(prelude, name=b"=runtime")

    def run(self, script: Script) -> Failure | None:
        crash: list[BaseException] = []

        def call(path: bytes, args: bytes) -> tuple[Any, ...]:
            # nothing may be raised into Lua: a script could catch it, and would hold an object of Python
            try:
                return self._answer(script, path.decode(), args)
            except lupa.LuaMemoryError:
                return (b"memory",)
            except BaseException as error:
                if not script.over:
                    crash.append(error)
                return (b"stop",)

        try:
            given = (script.source, script.name, script.job.surface, script.job.constants, script.config)
            ended: Any = self._run(*map(self._value, given), call, lambda: script.over)
        except lupa.LuaMemoryError:
            raise
        except lupa.LuaError as error:
            return {"kind": "internal", "message": f"{script.name}: {error}"}
        finally:
            # Lua holds `call`, which holds us: without this circle the state goes at once, with its memory
            del self._lua, self._run, self._list
        if crash:
            raise crash[0]
        return None if ended is None else _failure(script.name, *ended)

    def _answer(self, script: Script, path: str, args: bytes) -> tuple[Any, ...]:
        try:
            args.decode()
        except UnicodeDecodeError:
            return b"err", b"validation", f"{path}: a text is not UTF-8".encode()
        return tuple(map(self._value, json.loads(script.call(path, args))))

    def _value(self, value: Any) -> Any:
        """A JSON value as Lua has it: null is nil, and lists that are empty stay lists."""
        if isinstance(value, str):
            return value.encode(errors="replace")
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            fields = {k.encode(errors="replace"): self._value(v) for k, v in items if v is not None}
            return self._lua.table_from(fields)
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return self._lua.table_from([self._value(v) for v in items]) if items else self._list()
        if isinstance(value, int) and not -LARGEST <= value < LARGEST:
            return float(value)
        return value


def _failure(name: str, said: bytes, kind: bytes | None, id: int | None) -> Failure:
    message = said.decode(errors="replace")
    where = "" if message.startswith(f"{name}:") else f"{name}: "
    return {"kind": (kind or b"internal").decode(), "message": f"{where}{message}", "id": id}
