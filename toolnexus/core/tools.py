"""Tool and ToolResult: the one callable unit."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal

from toolnexus.core.messages import MediaPart
from toolnexus.core.suspension import Request
from toolnexus.core.values import value

Source = Literal["mcp", "skill", "native", "http", "builtin", "a2a", "agent", "relay", "custom"]

Execute = Callable[[dict[str, Any], Any], Awaitable[Any]]
"""`async (arguments, ctx) -> ToolResult | str | JSON value`. `ctx` is a `ToolContext`."""

Validate = Callable[[dict[str, Any]], dict[str, Any]]


@value(kw_only=True)
class ToolResult:
    """What a call gave.

    `output` is the text the model reads, `parts` images and files beside it, `metadata` what only
    the host sees. `requests` non-empty: the tool asks instead of answering.
    """

    output: str = ""
    is_error: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    parts: tuple[MediaPart, ...] = ()
    requests: tuple[Request, ...] = ()
    child: Mapping[str, Any] | None = field(default=None, repr=False)
    """Where it stands what the call began: the run below that asks, or the call of a server."""


def pending(
    *,
    kind: str,
    prompt: str,
    url: str | None = None,
    data: Mapping[str, Any] | None = None,
    expires_at: str | None = None,
) -> ToolResult:
    """Return this from a tool to suspend on a question.

    The same call runs again with `ctx.answer` set once somebody has answered with `ok`.
    """
    request = Request(kind=kind, prompt=prompt, url=url, data=data, expires_at=expires_at)
    return ToolResult(requests=(request,))


class Tool:
    """Something a model may call: name, description, JSON Schema, async `execute`.

    `input_schema` is the original JSON Schema of the arguments object; dispatch validates against
    it before `execute` runs. `execute(arguments, ctx)` returns a `ToolResult`, a string, or any
    JSON value, and may raise: an exception becomes a failed result, never a failed run.
    `validate` replaces the check against the schema: it returns the arguments that `execute` gets
    and raises `ToolError` with a text for the model.
    """

    from_function: ClassVar[Callable[..., Tool]]
    """A tool made of a typed function; set by `tools/function.py`, which knows how."""

    def __init__(
        self,
        name: str,
        description: str,
        input_schema: Mapping[str, Any],
        execute: Execute,
        *,
        source: Source = "custom",
        origin: str | None = None,
        original_name: str | None = None,
        validate: Validate | None = None,
        idempotent: bool = False,
    ) -> None:
        self.name = name
        self.description = description
        self._input_schema = input_schema
        self.execute = execute
        self.source: Source = source
        self.origin = origin
        """Where it comes from within its source: the MCP server, the document."""
        self.original_name = original_name or name
        """Its name at the origin, before it was made safe for a model."""
        self.validate = validate
        self.idempotent = idempotent
        """Whether a call may run again when nobody knows whether it did."""

    def named(self, name: str) -> Tool:
        """This tool under another name."""
        if name == self.name:
            return self
        twin = copy.copy(self)
        twin.name = name
        return twin

    @property
    def input_schema(self) -> Mapping[str, Any]:
        return self._input_schema

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, source={self.source!r})"
