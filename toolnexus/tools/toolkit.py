"""Toolkit: an immutable set of tools with views."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from toolnexus.core.messages import ToolCallPart
from toolnexus.core.names import did_you_mean, listed
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.errors import NameConflict, ToolnexusError
from toolnexus.runtime.context import RunContext
from toolnexus.tools.filters import NameFilter

logger = logging.getLogger("toolnexus.tools")

ContextFactory = Callable[[], AbstractAsyncContextManager[RunContext]]
"""Gives the context of a call that the host makes itself, outside any run."""


class Toolkit:
    """An immutable set of tools, in a fixed order.

    Raises `NameConflict` when two of `tools` have one name.
    """

    __slots__ = ("_by_name", "_context", "_tools")

    def __init__(self, tools: Iterable[Tool] = (), *, context: ContextFactory | None = None) -> None:
        self._tools = tuple(tools)
        self._by_name = {t.name: t for t in self._tools}
        self._context = context
        check_unique(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __repr__(self) -> str:
        return f"Toolkit({list(self._by_name)})"

    def names(self) -> list[str]:
        """The names, in order."""
        return list(self._by_name)

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return self._by_name.get(name)

    def only(self, *names: str) -> Toolkit:
        """A view of the named tools; globs allowed. Raises `ConfigError` for an unknown name."""
        wanted = NameFilter(allow=names)
        wanted.check(self._by_name, "only")
        return self.filtered(lambda t: wanted.admits(t.name))

    def without(self, *names: str) -> Toolkit:
        """A view without the named tools; globs allowed. Raises `ConfigError` for an unknown name."""
        dropped = NameFilter(deny=names)
        dropped.check(self._by_name, "without")
        return self.filtered(lambda t: dropped.admits(t.name))

    def filtered(self, keep: Callable[[Tool], bool]) -> Toolkit:
        """A view of the tools for which `keep` is true."""
        return Toolkit((t for t in self._tools if keep(t)), context=self._context)

    async def execute(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Call one tool under the rules of a loop: validated, bounded, hooks applied.

        An unknown tool, bad arguments and a failing tool are results with `is_error`; raises
        nothing but `CancelledError`.
        """
        from toolnexus.tools.invoke import detached, invoke

        tool = self.get(name)
        if tool is None:
            return ToolResult(output=unknown_tool(name, self._by_name), is_error=True)
        try:
            text = json.dumps(dict(arguments or {}))
        except (TypeError, ValueError, RecursionError) as error:
            return ToolResult(output=f"the arguments of {name!r} are no JSON object: {error}", is_error=True)
        try:
            async with self._context() if self._context else nullcontext(detached()) as context:
                return await invoke(tool, ToolCallPart("call_1", name, text), context)
        except ToolnexusError as error:  # its client cannot be opened, or was closed
            return ToolResult(output=f"{name!r} cannot run: {error}", is_error=True)

    def to_openai(self) -> list[dict[str, Any]]:
        """The declarations for an OpenAI-style endpoint."""
        from toolnexus.tools.declarations import to_openai

        return to_openai(self._tools)

    def to_anthropic(self) -> list[dict[str, Any]]:
        """The declarations for an Anthropic-style endpoint."""
        from toolnexus.tools.declarations import to_anthropic

        return to_anthropic(self._tools)

    def to_gemini(self) -> list[dict[str, Any]]:
        """The declarations for a Gemini-style endpoint."""
        from toolnexus.tools.declarations import to_gemini

        return to_gemini(self._tools)


def check_unique(tools: Iterable[Tool], where: str = "") -> None:
    """Raise `NameConflict` when two of `tools` have one name; `where` says who gave them."""
    counts = Counter(t.name for t in tools)
    if double := sorted(name for name, count in counts.items() if count > 1):
        listed = ", ".join(map(repr, double))
        raise NameConflict(f"{where and where + ': '}several tools are named {listed}; rename all but one")


def unknown_tool(name: str, known: Iterable[str]) -> str:
    """What a model reads when it calls a tool that it was not offered."""
    names = list(known)
    return f"unknown tool {name!r}; available: {listed(names)}{did_you_mean(name, names)}"


def assemble(groups: Iterable[tuple[str, Iterable[Tool]]]) -> list[Tool]:
    """The tools of several sources in their order; the first of a name wins, with a warning."""
    out: dict[str, Tool] = {}
    owner: dict[str, str] = {}
    for source, tools in groups:
        for tool in tools:
            if tool.name in out:
                logger.warning(
                    "tool %r of %s is hidden by the one of %s", tool.name, source, owner[tool.name]
                )
                continue
            out[tool.name], owner[tool.name] = tool, source
    return list(out.values())
