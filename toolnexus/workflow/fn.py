"""Fn: a plain function as a node."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, get_type_hints, overload

from toolnexus.errors import ConfigError
from toolnexus.runtime.context import RunContext
from toolnexus.workflow.node import Leaf, named
from toolnexus.workflow.values import from_json

I = TypeVar("I", contravariant=True)  # noqa: E741
O = TypeVar("O", covariant=True)  # noqa: E741

_KINDS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Fn(Leaf[I, O]):
    """A function `fn(input)` or `fn(input, ctx)` as a node, plain or async.

    A plain one runs on the event loop: give an async one for what waits. The annotation of what it
    returns says what its value is restored as when the workflow goes on in another process.
    """

    @overload
    def __init__(self, fn: Callable[[I], Awaitable[O]], *, name: str | None = None) -> None: ...
    @overload
    def __init__(self, fn: Callable[[I, RunContext], Awaitable[O]], *, name: str | None = None) -> None: ...
    @overload
    def __init__(self, fn: Callable[[I], O], *, name: str | None = None) -> None: ...
    @overload
    def __init__(self, fn: Callable[[I, RunContext], O], *, name: str | None = None) -> None: ...
    def __init__(self, fn: Callable[..., Any], *, name: str | None = None) -> None:
        """Raises `ConfigError` for what cannot be called with an input, or with an input and a context."""
        if not callable(fn):
            raise ConfigError(f"Fn: {fn!r} is no function")
        own = getattr(fn, "__name__", type(fn).__name__).strip("<>")
        self.name = own if name is None else named(name, "Fn")
        self.description = inspect.getdoc(fn) or ""
        self._fn = fn
        self._takes_context = _takes_context(fn, self.name)

    async def run(self, input: I, ctx: RunContext) -> O:
        value = self._fn(input, ctx) if self._takes_context else self._fn(input)
        if inspect.isawaitable(value):
            return await value
        return value

    def restored(self, data: Any) -> Any:
        if isinstance(self._fn, type):
            return from_json(data, self._fn)
        try:
            hint = get_type_hints(self._fn).get("return")
        except Exception:  # a name that is not there at run time: then plain JSON has to do
            hint = None
        return from_json(data, hint)


def _takes_context(fn: Callable[..., Any], name: str) -> bool:
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # a builtin that has no signature
        return False
    several = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    places = [p for p in parameters if p.kind in _KINDS]
    must = [p for p in places if p.default is inspect.Parameter.empty]
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is inspect.Parameter.empty]
    if named or len(must) > 2 or not (places or several):
        raise ConfigError(f"Fn: {name}{inspect.signature(fn)} must be called as fn(input) or fn(input, ctx)")
    return len(must) == 2 or (len(places) > 1 and places[1].name in ("ctx", "context"))
