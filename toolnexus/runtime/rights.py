"""What a run may not do, as the engine sees it: denials and layers of rules about calls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from toolnexus.core.tools import Tool


class Denial(Protocol):
    """What one agent denies itself and everything below it."""

    def denies(self, tool: Tool) -> bool: ...
    def denies_skill(self, name: str) -> bool: ...
    def denies_agent(self, name: str) -> bool: ...


class Ruling(Protocol):
    """What a rule says of a call."""

    @property
    def text(self) -> str: ...
    @property
    def verdict(self) -> str: ...


class Permissions(Denial, Protocol):
    """One layer of rules about calls; it holds for everything below as well."""

    @property
    def where(self) -> str: ...
    def decide(self, tool: Tool, arguments: Mapping[str, Any], root: Path) -> Ruling | None: ...
