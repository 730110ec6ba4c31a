"""One execution of one script, as the parent sees it: it answers calls until the child says how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from toolnexus.graph.scripts.messages import encode
from toolnexus.graph.scripts.pool import Child, ChildEnded, Pool
from toolnexus.graph.scripts.runtime import (
    ERROR_KINDS,
    INTERRUPT_KINDS,
    JSON,
    Constants,
    Handle,
    HostCall,
    LuaReturns,
    Method,
    ScriptError,
    ScriptFailure,
    Signal,
    Surface,
)

_PATIENCE = 0.1
"""Seconds that a script gets to end once it was stopped. A child that does not is replaced."""
_BUILT_IN = {"runtime.execScript": Method("execScript", "value, err")}
_RESERVED = ("config", "signal")
_KINDS = {"done": ("",), "error": ERROR_KINDS, "interrupt": INTERRUPT_KINDS}
_ERRORS_KEPT = 32
_MOST_HANDLES = 10_000
_LONGEST_ERROR = 4000


class Execution:
    """Where one script may call, and until when. `limit` and `grace` are seconds; 0 is no limit."""

    def __init__(self, name: str, surface: Surface, host: HostCall, limit: float, grace: float) -> None:
        if wrong := [global_ for global_ in surface if global_ in _RESERVED]:
            raise ValueError(f"a surface cannot have the global {wrong[0]!r}: it is built in")
        self._name = name
        self._host = host
        self._limit = limit
        self._grace = grace
        self._surface: dict[str, LuaReturns | Sequence[tuple[str, LuaReturns]]] = {}
        self._allowed: set[str] = set()
        for global_, methods in surface.items():
            if isinstance(methods, Method):
                self._surface[global_] = methods.lua
                self._allowed.add(global_)
            else:
                self._surface[global_] = described = _described(global_, methods)
                self._allowed.update(f"{global_}.{method}" for method, _ in described)
        self._errors: dict[int, ScriptError] = {}
        self._said = 0
        self._handles = 0

    async def job(self, source: str, config: JSON, constants: Constants) -> bytes:
        """What the child is to do. Raises `ScriptFailure`."""
        if wrong := [global_ for global_ in constants if global_ in _RESERVED]:
            raise ValueError(f"constants cannot be of the global {wrong[0]!r}: it is built in")
        job = {
            "name": self._name,
            "source": source,
            "config": config,
            "surface": self._surface,
            "constants": constants,
            "seconds": self._limit or None,
        }
        try:
            return await encode(job, "what the script starts with")
        except ValueError as error:
            raise ScriptFailure("validation", f"{self._name}: {error}") from error

    async def run(self, pool: Pool, child: Child, job: bytes) -> Signal | None:
        """The signal that stopped the script, or None at its end. Raises `ScriptFailure`."""
        loop = asyncio.get_running_loop()
        signal: Signal | None = None
        soft = loop.time() + self._limit if self._limit else None
        child.idle = False
        hard = asyncio.timeout_at(soft and soft + self._grace)
        try:
            async with hard:
                await child.send(job)
                while "end" not in (message := await child.receive()):
                    if "signal" in message:
                        signal = _signal(message["signal"])
                        hard.reschedule(loop.time() + _PATIENCE)
                    else:
                        await self._answer(pool, child, message, soft)
        except TimeoutError:
            if not hard.expired():
                raise
            if signal is None:
                raise self._timeout() from None
        except ChildEnded:
            if signal is None:
                raise await self._ended(pool, child) from None
        else:
            child.idle = True
            if signal is None and message["end"] is not None:
                raise self._failure(message["end"])
        return signal

    async def _answer(self, pool: Pool, child: Child, message: dict[str, Any], soft: float | None) -> None:
        path, args = message.get("call"), cast("list[Any]", message.get("args"))
        if path not in self._allowed or not isinstance(args, list):
            raise ChildEnded
        scope = asyncio.timeout_at(soft)
        try:
            async with scope:
                with pool.host_call():
                    value = await self._host(path, args)
                reply = await self._result(path, value)
        except ScriptError as error:
            reply = await self._error(error)
        except TimeoutError:
            await self._stop(child)
            if scope.expired():
                raise self._timeout() from None
            raise
        except Exception:
            await self._stop(child)
            raise
        await child.send(reply)

    async def _result(self, path: str, value: Any) -> bytes:
        if isinstance(value, Handle):
            self._handles += 1
            if self._handles > _MOST_HANDLES:
                raise ScriptError(
                    "budget_exceeded", f"{path}: a script opens at most {_MOST_HANDLES} handles"
                )
            methods = _described(value.id, value.methods, "value, err")
            self._allowed.update(f"{value.id}.{method}" for method, _ in methods)
            reply = ["handle", value.id, methods]
        else:
            reply = ["ok", value]
        try:
            return await encode(reply, f"{path}: the result")
        except ValueError as error:
            raise ScriptError("validation", str(error)) from error

    async def _error(self, error: ScriptError) -> bytes:
        self._said += 1
        self._errors[self._said] = error
        self._errors.pop(self._said - _ERRORS_KEPT, None)
        return await encode(["err", error.kind, error.message[:_LONGEST_ERROR], self._said], "an error")

    async def _stop(self, child: Child) -> None:
        """End the script from outside. The child can be used again if the script lets it."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await child.send(b'["stop"]')
                child.idle = "end" in await child.receive()
        except (ChildEnded, TimeoutError):
            pass

    def _failure(self, end: dict[str, Any]) -> ScriptFailure:
        if end["kind"] == "timeout" and "id" not in end:
            return self._timeout()
        failure = ScriptFailure(end["kind"], end["message"])
        failure.__cause__ = self._errors.get(end.get("id") or 0)
        return failure

    def _timeout(self) -> ScriptFailure:
        return ScriptFailure("timeout", f"{self._name}: the script ran longer than {self._limit:g} s")

    async def _ended(self, pool: Pool, child: Child) -> ScriptFailure:
        if pool.closed:
            return ScriptFailure("not_available", f"{self._name}: the script runtime was closed")
        with suppress(TimeoutError):  # what it died of, rather than what it is killed by
            async with asyncio.timeout(_PATIENCE):
                await child.gone()
        child.process.kill()
        code = await child.gone()
        return ScriptFailure(
            "internal",
            f"{self._name}: the process of the script broke off (exit {code}): "
            "it may have needed more memory than it may take",
        )


def _described(
    name: str, methods: Sequence[str | Method], returns: LuaReturns = "value"
) -> list[tuple[str, LuaReturns]]:
    made = [m if isinstance(m, Method) else Method(m, returns) for m in methods]
    made = [_BUILT_IN.get(f"{name}.{m.name}", m) for m in made]
    return [(m.name, m.lua) for m in made]


def _signal(data: Any) -> Signal:
    signal = Signal(data["type"], data["kind"], data["message"], data["detail"])
    if signal.kind not in _KINDS.get(signal.type, ()):
        raise ChildEnded
    return signal
