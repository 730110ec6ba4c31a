"""What one run is offered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from toolnexus.core.tools import Tool
from toolnexus.core.values import frozen
from toolnexus.runtime.context import Frame
from toolnexus.tools.toolkit import unknown_tool

if TYPE_CHECKING:
    from pathlib import Path

    from toolnexus.engine.deferred import Deferred

TOOL_SEARCH = "tool_search"
"""The tool that finds those which are not declared."""


@frozen(kw_only=True)
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
    deferred: Deferred | None = None
    """Tools that are declared once the run has found them."""
    _by_name: Mapping[str, Tool] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {**self.unoffered, **{t.name: t for t in self.tools}})

    def get(self, name: str) -> Tool | None:
        """The tool that answers to `name`, or None when it was not offered."""
        return self._by_name.get(name)

    def refusal(self, name: str, frame: Frame) -> str:
        """What a model reads when it calls a tool that it was not offered."""
        declared = [t.name for t in self.tools]
        if self.deferred is None:
            return unknown_tool(name, declared)
        return self.deferred.answer(frame, name) or self.deferred.unknown(name, declared)

    def deferring(self, most: int | None) -> View:
        """This view with at most `most` tools declared from the start, and itself when that is enough."""
        if most is None or len(self.tools) <= most:
            return self
        from toolnexus.engine.deferred import Deferred, split

        stay, rest = split(self.tools, most)
        if not rest:
            return self
        deferred = Deferred(rest, [*self._by_name])
        return replace(self, tools=(*stay, deferred.search), deferred=deferred)

    def of_run(self, frame: Frame) -> View:
        """This view with what the run of `frame` has found behind it; the same until it finds more."""
        if self.deferred is None:
            return self
        found = self.deferred.loaded(frame)
        base, known, view = frame.memo.get(View) or (None, (), self)
        if base is not self or known != found:
            view = replace(self, tools=(*self.tools, *found)) if found else self
            frame.memo[View] = (self, found, view)
        return view
