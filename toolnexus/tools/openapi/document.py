"""The values of a document, with its references followed: local ones, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from toolnexus.core.schema import target
from toolnexus.tools.openapi.report import Place, Report, kind_of

_LONGEST = 100


class Document:
    """An OpenAPI document in plain JSON values."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        info = root.get("info")
        title = cast("dict[str, Any]", info).get("title") if isinstance(info, dict) else None
        self.title = title if isinstance(title, str) and title.strip() else "openapi"

    def lookup(self, ref: str, place: Place, report: Report) -> Any:
        """What a local reference leads to; None, and a finding, when that is nowhere."""
        shown = repr(ref[:_LONGEST])
        if not ref.startswith("#/"):
            report.add(place, f"$ref {shown} leads out of the document; put what it means into components")
            return None
        found = target(ref, self.root)
        if found is None:
            report.add(place, f"$ref {shown} leads nowhere")
        return found

    def object(self, value: Any, place: Place, report: Report) -> dict[str, Any] | None:
        """`value`, or what it refers to; None, and a finding, when that is no object."""
        seen = set[str]()
        while isinstance(value, dict) and isinstance(ref := cast("dict[str, Any]", value).get("$ref"), str):
            if ref in seen:
                report.add(place, f"$ref {ref[:_LONGEST]!r} leads back to itself")
                return None
            seen.add(ref)
            value = self.lookup(ref, place, report)
            if value is None:
                return None
        if not isinstance(value, dict):
            report.add(place, f"it must be an object, not {kind_of(value)}")
            return None
        return cast("dict[str, Any]", value)

    def table(self, holder: Mapping[str, Any], key: str, place: Place, report: Report) -> dict[str, Any]:
        """The object under `key`; empty when there is none."""
        value = holder.get(key)
        return {} if value is None else self.object(value, (*place, key), report) or {}

    def items(
        self, holder: Mapping[str, Any], key: str, place: Place, report: Report
    ) -> Iterator[tuple[Place, dict[str, Any]]]:
        """The objects in the list under `key`, with their places."""
        value = holder.get(key)
        if value is None:
            return
        if not isinstance(value, list):
            report.add((*place, key), f"it must be a list, not {kind_of(value)}")
            return
        for i, item in enumerate(cast("list[Any]", value)):
            where = (*place, key, i)
            if (found := self.object(item, where, report)) is not None:
                yield where, found
