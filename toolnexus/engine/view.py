"""What one run is offered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolnexus.core.tools import Tool
from toolnexus.tools.toolkit import unknown_tool


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The tools and the system prompt of one agent; the same object while nothing changes."""

    tools: tuple[Tool, ...]
    system: str = ""
    roots: tuple[Path, ...] = ()
    """The folders of the skills that it may load: their files may be read."""
    closed: tuple[Path, ...] = ()
    """The folders of the other skills, which may lie in these."""
    unoffered: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    """Tools that are not offered but answer when called (`task` at the depth limit refuses)."""
    _by_name: Mapping[str, Tool] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {**self.unoffered, **{t.name: t for t in self.tools}})

    def get(self, name: str) -> Tool | None:
        """The tool that answers to `name`, or None when it was not offered."""
        return self._by_name.get(name)

    def refusal(self, name: str) -> str:
        """What a model reads when it calls a tool that it was not offered."""
        return unknown_tool(name, (t.name for t in self.tools))
