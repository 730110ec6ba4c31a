"""Python functions as tools.

Decorating reads the signature only. pydantic and the docstring parser are loaded when the schema is
first needed: to declare the tool, or to call it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from toolnexus.core.names import MAX_NAME, is_name
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.errors import ConfigError, ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.signature import Signature, plain

if TYPE_CHECKING:
    from toolnexus.tools.contract import Contract

P = ParamSpec("P")
R = TypeVar("R")

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class FunctionTool(Tool, Generic[P, R]):
    """A Python function as a tool. Called, it is still that function.

    The schema comes from the type hints and the docstring; a parameter without a hint takes any
    JSON value, one of type `ToolContext` is filled in and never shown. Arguments arrive as the types
    that the hints name. A sync function runs in a thread unless `thread` is false; then it runs on
    the event loop and blocks it. `idempotent`: a call may be repeated when the process ended in the
    middle of it. Text is the output as it is, a `ToolResult` passes, any other value
    is given as JSON; None is `null`, or `done` from a function that is annotated `-> None`.

    Raises `ConfigError` for what a model cannot call: no usable name, `*args`, a generator. A type
    without a JSON Schema raises it where `input_schema` is first read: when its client opens.
    """

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        thread: bool = True,
        idempotent: bool = False,
    ) -> None:
        if isinstance(fn, FunctionTool):
            name, description = name or fn.name, description or fn.description
            idempotent = idempotent or fn.idempotent
            fn = fn.__wrapped__
        if not callable(fn):
            raise ConfigError(f"a tool is made from a function, not from {fn!r}")
        self._signature = Signature(fn)
        self._built: Contract | None = None
        self._is_async = _is_async(fn)
        self._thread = thread
        super().__init__(
            self._signature.name if name is None else name,
            self._signature.description if description is None else description,
            {},
            self._call,
            source="native",
            validate=self._check,
            idempotent=idempotent,
        )
        if not is_name(self.name):
            raise ConfigError(
                f"tool name {self.name!r} is not allowed; give name= with 1 to {MAX_NAME} of A-Z a-z 0-9 _ -"
            )
        functools.update_wrapper(self, fn, updated=())

    @classmethod
    def from_function(cls, fn: Callable[P, R], **options: Any) -> FunctionTool[P, R]:
        """The same as the constructor."""
        return cls(fn, **options)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool[..., R]:
        """The tool of one instance, when a method was decorated."""
        bind = getattr(self.__wrapped__, "__get__", None)
        if instance is None or bind is None:
            return self
        bound: FunctionTool[..., R] = FunctionTool(
            bind(instance, owner),
            name=self.name,
            description=self.description,
            thread=self._thread,
            idempotent=self.idempotent,
        )
        bound._signature.inherit(self._signature)
        return bound

    @property
    def input_schema(self) -> Mapping[str, Any]:
        return self._contract().schema

    def _contract(self) -> Contract:
        if self._built is None:
            from toolnexus.tools.contract import Contract

            self._built = Contract(self._signature)
        return self._built

    def _check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return (self._built or self._contract()).check(self.name, arguments)

    async def _call(self, arguments: dict[str, Any], ctx: ToolContext | None) -> str | ToolResult:
        args, kwargs = (self._built or self._contract()).bind(arguments, ctx)
        fn: Callable[..., Any] = self.__wrapped__
        if self._is_async:
            return self._output(await fn(*args, **kwargs))
        if self._thread:
            from toolnexus.runtime.threads import run_in_thread

            try:
                value = await run_in_thread(functools.partial(fn, *args, **kwargs))
            except asyncio.CancelledError:
                if ctx is not None:
                    ctx.cancel()  # the thread goes on: a cooperative function looks and stops
                raise
        else:
            value = fn(*args, **kwargs)
        return self._output(await value if inspect.isawaitable(value) else value)

    def _output(self, value: Any) -> str | ToolResult:
        if isinstance(value, ToolResult):
            return value
        if isinstance(value, str) and not isinstance(value, Enum):
            return value
        if value is None and self._signature.returns_nothing:
            return "done"
        try:
            return _encode(value)
        except (TypeError, ValueError):  # whatever holds media ends here, too
            from toolnexus.tools.media_values import media_result

            encode = functools.partial(_to_json, tool=self.name)
            return media_result(value, encode) or encode(value)


def _to_json(value: Any, tool: str) -> str:
    """JSON of dataclasses, models, enums, dates, paths, sets, bytes (text, or URL-safe base64), …"""
    from pydantic_core import to_json

    try:
        try:
            return to_json(value, inf_nan_mode="strings").decode()
        except ValueError as error:
            if "utf-8" not in str(error):  # all other values would fail again
                raise
            return to_json(value, inf_nan_mode="strings", bytes_mode="base64").decode()
    except ValueError as error:
        raise ToolError(
            f"{tool!r} ran, but gave a {type(value).__name__} that JSON cannot hold ({error}); "
            "a tool returns text, JSON values, dataclasses or a ToolResult"
        ) from None


def _is_async(fn: Callable[..., Any]) -> bool:
    fn = plain(fn)
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)


@overload
def tool(fn: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    thread: bool = True,
    idempotent: bool = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Turn a function into a tool: `@tool`, or `@tool(name=…, description=…, thread=…, idempotent=…)`.

    Returns a `FunctionTool`, which says what the options mean and what it raises.
    """
    return functools.partial(FunctionTool, **options) if fn is None else FunctionTool(fn, **options)


Tool.from_function = FunctionTool.from_function
