"""Hooks may change a run; they are awaited, in order, in every child too."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from toolnexus.core.model import ModelRequest, ModelResponse
from toolnexus.core.tools import ToolResult
from toolnexus.errors import ConfigError, ModelContextError
from toolnexus.runtime.context import RunContext, ToolContext

POINTS = ("before_model", "after_model", "on_overflow", "before_tool", "after_tool")


class Hooks:
    """Override what you need; each method may be plain or async.

    A raising `before_tool` or `after_tool` fails closed: the call becomes an error result. A
    raising `before_model`, `after_model` or `on_overflow` fails the run. To watch only, read events instead.
    """

    def before_model(
        self, ctx: RunContext, request: ModelRequest
    ) -> ModelRequest | Awaitable[ModelRequest | None] | None:
        """Change the request (`dataclasses.replace`), or return None to leave it."""

    def after_model(
        self, ctx: RunContext, response: ModelResponse
    ) -> ModelResponse | Awaitable[ModelResponse | None] | None:
        """Change the response, or return None to leave it."""

    def on_overflow(
        self, ctx: RunContext, request: ModelRequest, error: ModelContextError
    ) -> ModelRequest | Awaitable[ModelRequest | None] | None:
        """The model cannot read a request of this length: return a shorter one, which is sent once, or
        None. The nearest hook is asked first, and the first request that comes is taken."""

    def before_tool(
        self, ctx: ToolContext
    ) -> ToolResult | Mapping[str, Any] | Awaitable[ToolResult | Mapping[str, Any] | None] | None:
        """Return a result to answer instead of the tool, a mapping to replace the arguments
        (validated again; the transcript keeps the model's own), or None to let the call run."""

    def after_tool(
        self, ctx: ToolContext, result: ToolResult
    ) -> ToolResult | Awaitable[ToolResult | None] | None:
        """Change the result, or return None to leave it."""


class HookSet:
    """The hooks of one run, sorted by the point they act on, so that no hook costs nothing."""

    __slots__ = POINTS
    before_model: tuple[Callable[..., Any], ...]
    after_model: tuple[Callable[..., Any], ...]
    on_overflow: tuple[Callable[..., Any], ...]
    before_tool: tuple[Callable[..., Any], ...]
    after_tool: tuple[Callable[..., Any], ...]

    def __init__(self, hooks: Iterable[object] = (), above: HookSet | None = None) -> None:
        own: dict[str, list[Callable[..., Any]]] = {point: [] for point in POINTS}
        for hook in hooks:
            found = [p for p in POINTS if _overrides(hook, p)]
            if not found:
                raise ConfigError(f"hook {hook!r} has none of the methods {', '.join(POINTS)}")
            for point in found:
                own[point].append(getattr(hook, point))
        for point in POINTS:
            setattr(self, point, (*(getattr(above, point) if above else ()), *own[point]))


NO_HOOKS = HookSet()
"""What most runs have."""


def _overrides(hook: object, point: str) -> bool:
    method = getattr(hook, point, None)
    return callable(method) and getattr(method, "__func__", None) is not getattr(Hooks, point)


async def settled(value: Any) -> Any:
    """`value`, awaited when it is awaitable: how a plain or async hook is called."""
    return await value if inspect.isawaitable(value) else value
