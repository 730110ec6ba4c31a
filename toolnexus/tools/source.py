"""The tool source port.

What it is: something that opens, lists tools and closes: an MCP server, a skills folder, the document
of a URL.
What it is not: a registry; names are chosen by the toolkit that gathers the sources.
Above: the client opens all its sources at once and closes them. Below: `mcp`, `skills`, `openapi`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from toolnexus.core.names import model_names
from toolnexus.core.tools import Tool


@runtime_checkable
class ToolSource(Protocol):
    """A place that tools come from. One source may be opened once per client."""

    @property
    def name(self) -> str:
        """What messages and filters call it."""
        ...

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools it has now; empty before `open` and after `aclose`."""
        ...

    async def open(self, on_change: Callable[[], None]) -> None:
        """Connect and list. `on_change` is called whenever `tools` has changed since.

        Raises `SourceError` when it cannot; the caller then goes on without it.
        """
        ...

    async def aclose(self) -> None:
        """Release everything. May be called from any task, twice, and after a failed `open`."""
        ...


def secrets_of(entry: Tool | ToolSource) -> Iterable[str]:
    """The values that a tool or source keeps in `secrets`, if it keeps any: they must never be shown."""
    return getattr(entry, "secrets", ())


def safely_named(source: ToolSource) -> list[Tool]:
    """The tools of `source` under names that a model can call: safe, short, unique and stable."""
    tools = list(source.tools)
    names = model_names([(tool.name, tool.name) for tool in tools])
    return [tool.named(name) for tool, name in zip(tools, names, strict=True)]
