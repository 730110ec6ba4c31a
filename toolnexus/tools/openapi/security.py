"""What the host must give with requests: never asked of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from toolnexus.tools.http.keys import Keys
from toolnexus.tools.openapi.document import Document
from toolnexus.tools.openapi.parameters import Parameter
from toolnexus.tools.openapi.report import Report

Slot = tuple[str, str]
"""`header`, `query` or `cookie`, and a name; of headers in lower case."""


class Security:
    """The security schemes of one document, and what the host gives."""

    def __init__(self, document: Document, keys: Keys, query: frozenset[str]) -> None:
        self._root = document.root
        self.keys = keys
        self.query = query
        components = document.table(document.root, "components", (), Report())
        schemes = document.table(components, "securitySchemes", (), Report())
        self._slots: dict[str, Slot | None] = {
            name: _slot(document.object(scheme, (), Report()) or {}) for name, scheme in schemes.items()
        }
        self.missing: dict[Slot, int] = {}
        """What is not given, and how many operations need it."""

    def is_given(self, parameter: Parameter) -> bool:
        """Whether a parameter is the host's own matter."""
        name = parameter.name.lower() if parameter.within == "header" else parameter.name
        slot = (parameter.within, name)
        return slot in self._slots.values() or self._has(slot)

    def note(self, operation: Mapping[str, Any]) -> None:
        """Note what an operation needs and is not given."""
        wanted = operation.get("security", self._root.get("security"))
        if not isinstance(wanted, list) or not wanted:
            return
        ways = [
            [self._slots.get(name) for name in cast("dict[str, Any]", way)]
            for way in cast("list[Any]", wanted)
            if isinstance(way, dict)
        ]
        lacking = [[slot for slot in way if slot is not None and not self._has(slot)] for way in ways]
        if lacking and all(lacking):
            for slot in lacking[0]:
                self.missing[slot] = self.missing.get(slot, 0) + 1

    @property
    def advice(self) -> str | None:
        """A sentence about what is missing; None when nothing is."""
        if not self.missing:
            return None
        told = ", ".join(
            f"{within} {name!r} ({count} operation{'' if count == 1 else 's'})"
            for (within, name), count in self.missing.items()
        )
        return f"requests will lack {told}; give headers=, for a query value base_url='…?name=${{NAME}}'"

    def _has(self, slot: Slot) -> bool:
        within, name = slot
        if within == "query":
            return name in self.query
        if within == "cookie":
            return name in self.keys.cookies
        return within == "header" and name in self.keys.names


def _slot(scheme: Mapping[str, Any]) -> Slot | None:
    kind, within, name = scheme.get("type"), scheme.get("in"), scheme.get("name")
    if kind in ("http", "oauth2", "openIdConnect"):
        return "header", "authorization"
    if kind == "apiKey" and isinstance(name, str) and within in ("header", "query", "cookie"):
        return str(within), name.lower() if within == "header" else name
    return None
