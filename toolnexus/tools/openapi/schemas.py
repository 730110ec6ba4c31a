"""Schemas of what is sent: without what only the server writes, and whole in themselves.

A tool's schema holds the named schemas that it refers to, under `$defs`; each is made once for the
whole document, so that recursion is just a reference. In many documents everything leads to everything: what
lies far from the root is left open, and the server checks it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, cast

from toolnexus.core.names import sanitize
from toolnexus.core.schema_words import MANY, NAMED, ONE, SWITCH
from toolnexus.core.values import mutable
from toolnexus.tools.openapi.document import Document
from toolnexus.tools.openapi.report import Place, Report, kind_of

MAX_DEFINITIONS = 8_000
"""About how many characters the named schemas of one tool may have, nearest to the root first."""

_LEFT_OUT = frozenset(
    "$schema $id $anchor $dynamicAnchor $dynamicRef $defs definitions example xml externalDocs"
    " discriminator".split()
)


@mutable()
class Schema:
    """A schema as it goes into a tool."""

    node: Any
    uses: dict[str, None] = field(default_factory=dict[str, None])
    """The references in it, in order."""


@mutable()
class _Named:
    name: str
    schema: Schema
    findings: list[str]

    @property
    def outline(self) -> dict[str, Any]:
        """In the place of the schema where there is no room for it."""
        node = self.schema.node
        kind = cast("dict[str, Any]", node).get("type") if isinstance(node, dict) else None
        about = {"description": f"{self.name!r} of this API; it is not described further here."}
        return about if kind is None else {"type": kind, **about}


class Schemas:
    """The schemas of one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._known: dict[str, _Named] = {}

    def sent(self, node: Any, place: Place, report: Report) -> Schema:
        """The schema at a place."""
        schema = Schema(None)
        try:
            schema.node = self._copy(node, place, report, schema.uses)
        except RecursionError:
            report.add(place[:4], "its schema is nested too deeply")
        return schema

    def definitions(self, schemas: Iterable[Schema], report: Report) -> dict[str, Any]:
        """The named schemas that `schemas` lead to, by the names used in them."""
        waiting = [ref for schema in schemas for ref in schema.uses]
        found: dict[str, Any] = {}
        room = MAX_DEFINITIONS
        for ref in waiting:  # grows as it goes
            named = self._named(ref)
            if named.name in found:
                continue
            if room <= 0:
                found[named.name] = named.outline
                continue
            found[named.name] = named.schema.node
            room -= len(json.dumps(named.schema.node))
            report.take(named.findings)
            waiting += named.schema.uses
        return found

    def plain(self, node: Any) -> Mapping[str, Any]:
        """A schema with its reference followed, to see what it is; empty when it is none."""
        found = self._document.object(node, (), Report())
        return {} if found is None else found

    def _named(self, ref: str) -> _Named:
        if ref not in self._known:
            report = Report()
            steps = tuple(step.replace("~1", "/").replace("~0", "~") for step in ref.split("/")[1:])
            node = self._document.lookup(ref, steps, Report())
            self._known[ref] = _Named(self._name(ref), self.sent(node, steps, report), report.lines)
        return self._known[ref]

    def _name(self, ref: str) -> str:
        """A name for what a reference leads to: its last step, as long as nothing else has it."""
        if ref not in self._names:
            name = wished = sanitize(ref.rpartition("/")[2]) or "_"
            while name in self._taken:
                name = f"{wished}_{len(self._taken)}"
            self._taken.add(name)
            self._names[ref] = name
        return self._names[ref]

    def _copy(self, node: Any, place: Place, report: Report, uses: dict[str, None]) -> Any:
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict):
            report.add(place, f"a schema must be an object, not {kind_of(node)}")
            return {}
        out: dict[str, Any] = {}
        hidden = self._read_only(cast("dict[str, Any]", node))
        for key, value in cast("dict[str, Any]", node).items():
            if key in _LEFT_OUT:
                continue
            if key == "$ref" and isinstance(value, str):
                if self._document.lookup(value, place, report) is not None:
                    uses[value] = None
                    out[key] = f"#/$defs/{self._name(value)}"
            elif key in ONE or (key in SWITCH and isinstance(value, dict)):
                out[key] = self._copy(value, (*place, key), report, uses)
            elif key in MANY and isinstance(value, list):
                forms = enumerate(cast("list[Any]", value))
                out[key] = [self._copy(form, (*place, key, i), report, uses) for i, form in forms]
            elif key in NAMED and isinstance(value, dict):
                out[key] = {
                    name: self._copy(member, (*place, key, name), report, uses)
                    for name, member in cast("dict[str, Any]", value).items()
                    if key != "properties" or name not in hidden
                }
            else:
                out[key] = value
        if hidden and isinstance(required := out.get("required"), list):
            out["required"] = [name for name in cast("list[Any]", required) if name not in hidden]
        return out

    def _read_only(self, node: dict[str, Any]) -> list[str]:
        """The members that a server gives and nobody sends."""
        members = node.get("properties")
        if not isinstance(members, dict):
            return []
        found = cast("dict[str, Any]", members).items()
        return [
            name
            for name, member in found
            if isinstance(member, dict) and self.plain(member).get("readOnly") is True
        ]
