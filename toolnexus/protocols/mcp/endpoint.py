"""How one MCP server is reached, and what it offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

from toolnexus.core.values import frozen
from toolnexus.runtime.redact import Redactor

Era = Literal["handshake", "stateless"]
"""`handshake`: a session that begins with `initialize` (2024-11-05 … 2025-11-25). `stateless`:
every request stands alone (2026-07-28)."""


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@frozen(kw_only=True)
class Endpoint:
    """A process that is started (`command`), or a URL that is asked.

    `repr` shows neither arguments, nor values, nor more of a URL than its host.
    """

    name: str
    command: tuple[str, ...] = field(default=(), repr=False)
    """Program and arguments of a stdio server."""
    env: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    """What the process gets beside the safe defaults."""
    cwd: str | None = field(default=None, repr=False)
    url: str | None = field(default=None, repr=False)
    """Address of a streamable HTTP server."""
    headers: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    timeout: float = 30.0
    """Seconds for connecting, and for each call without a sign of progress."""
    protocol: Literal["auto"] | Era = "auto"
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that must not appear in any text."""

    @property
    def address(self) -> str:
        """Where it lives, fit for an error text: the program, or scheme and host."""
        if self.url is None:
            return self.command[0] if self.command else "nowhere"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


@frozen()
class ListedTool:
    """A tool as its server describes it."""

    name: str
    description: str
    input_schema: Mapping[str, Any]

    def masked(self, redact: Redactor) -> ListedTool:
        """The same without secrets: a server may write what it was given into its descriptions."""
        if redact.idle:
            return self
        description, schema = redact(self.description), redact.within(self.input_schema)
        return replace(self, description=description, input_schema=schema)
