"""Parameters of an operation, and how each of their styles writes a value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from toolnexus.core.values import frozen
from toolnexus.errors import ToolError
from toolnexus.tools.http.values import encoded, text_of
from toolnexus.tools.openapi.document import Document
from toolnexus.tools.openapi.report import Place, Report
from toolnexus.tools.openapi.schemas import Schema, Schemas

STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""By place, the default first."""
_JOINS = {"simple": ("", ","), "label": (".", "."), "matrix": (";", ";")}
_DELIMITERS = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}
_IN_QUERY = ":/?@!$'()*,;"
"""What `allowReserved` lets stand as it is: nothing that ends a value or begins another."""
_IN_COOKIE = "!#$&'()*+-./:<=>?@[]^_`{|}~"
_NEVER_SENT = frozenset(
    "accept content-type authorization host content-length transfer-encoding connection cookie expect te"
    " trailer upgrade proxy-authorization keep-alive".split()
)
"""Headers that OpenAPI leaves to other parts of a document, or that are the client's own."""

Write = Callable[[Any], str]


@frozen(kw_only=True)
class Parameter:
    """One parameter: where it goes and how its value is written there."""

    name: str
    within: str
    """`path`, `query`, `header` or `cookie`."""
    required: bool
    schema: Schema
    description: str
    style: str
    explode: bool
    is_json: bool = False
    """Whether the value is one JSON text, whatever its type."""
    objects_as_json: bool = False
    """Whether objects are written as JSON: what forms do unless told otherwise."""
    reserved: bool = False

    def in_path(self, value: Any) -> str:
        """The text for its placeholder."""
        value = self._value(value)
        first, between = _JOINS[self.style]
        head = f"{encoded(self.name)}=" if self.style == "matrix" else ""
        texts = self._texts(value, head, ",", encoded)
        return first + between.join(texts)

    def in_query(self, value: Any) -> list[str]:
        """Encoded pairs."""
        value, write = self._value(value), self._write
        name = encoded(self.name)
        if self.style == "deepObject":
            return list(_deep(name, value, write))
        return self._texts(value, f"{name}=", _DELIMITERS.get(self.style, ","), write)

    def in_header(self, value: Any) -> str:
        """The value of the header. Raises `ToolError` for what ends a header."""
        text = ",".join(self._texts(self._value(value), "", ",", text_of))
        if any(ord(c) < 32 or ord(c) == 127 for c in text):
            raise ToolError(f"header {self.name!r} cannot hold a line break or a control character")
        encoded(text)  # half of a surrogate pair
        return text

    def in_cookie(self, value: Any) -> list[str]:
        """Pairs for the header `Cookie`."""

        def write(value: Any) -> str:
            return encoded(value, _IN_COOKIE)

        return self._texts(self._value(value), f"{encoded(self.name)}=", ",", write)

    def _value(self, value: Any) -> Any:
        if self.is_json or (self.objects_as_json and isinstance(value, dict)):
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return value

    def _write(self, value: Any) -> str:
        return encoded(value, _IN_QUERY if self.reserved else "")

    def _texts(self, value: Any, head: str, between: str, write: Write) -> list[str]:
        if isinstance(value, list):
            texts = [write(item) for item in cast("list[Any]", value) if item is not None]
            if self.explode:
                return [head + text for text in texts]
            return [head + between.join(texts)] if texts else []
        if isinstance(value, dict):
            pairs = [(write(k), write(v)) for k, v in cast("dict[str, Any]", value).items() if v is not None]
            if self.explode:
                return [f"{key}={text}" for key, text in pairs]
            return [head + between.join([text for pair in pairs for text in pair])] if pairs else []
        return [head + write(value)]


def _deep(name: str, value: Any, write: Write) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield from _deep(f"{name}%5B{encoded(key)}%5D", inner, write)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _deep(name, inner, write)
    elif value is not None:
        yield f"{name}={write(value)}"


def read_parameters(
    lists: list[tuple[Place, Mapping[str, Any]]], document: Document, schemas: Schemas, report: Report
) -> list[Parameter]:
    """The parameters of a path and of an operation on it, which win; without headers that are never sent."""
    found: dict[tuple[str, str], Parameter] = {}
    for place, holder in lists:
        own: dict[tuple[str, str], Parameter] = {}
        for where, data in document.items(holder, "parameters", place, report):
            parameter = _parameter(data, where, document, schemas, report)
            if parameter is None:
                continue
            key = (parameter.within, parameter.name)
            if key in own:
                report.add(where, f"the {parameter.within} parameter {parameter.name!r} stands there twice")
            own[key] = parameter
        found |= own
    return [p for p in found.values() if not (p.within == "header" and p.name.lower() in _NEVER_SENT)]


def _parameter(
    data: Mapping[str, Any], place: Place, document: Document, schemas: Schemas, report: Report
) -> Parameter | None:
    name, within = data.get("name"), data.get("in")
    if not isinstance(name, str) or not name:
        report.add(place, "a parameter needs a name")
        return None
    if not isinstance(within, str) or within not in STYLES:
        report.add(place, f"parameter {name!r} is in {within!r}; allowed are {', '.join(STYLES)}")
        return None
    content = document.table(data, "content", place, report)
    style = data.get("style") or STYLES[within][0]
    if style not in STYLES[within]:
        allowed = ", ".join(STYLES[within])
        report.add(place, f"style {style!r} does not go with {within}; allowed are {allowed}")
        return None
    if len(content) > 1 or (not content and "schema" not in data):
        report.add(place, f"parameter {name!r} needs a schema, or content of one media type")
        return None
    node: Any = data.get("schema")
    for kind in content:
        media = document.object(content[kind], (*place, "content", kind), report) or {}
        node, place = media.get("schema", {}), (*place, "content", kind)
    description = data.get("description")
    explode = data.get("explode")
    return Parameter(
        name=name,
        within=within,
        required=data.get("required") is True or within == "path",
        schema=schemas.sent(node, (*place, "schema"), report),
        description=description if isinstance(description, str) else "",
        style=style,
        explode=explode if isinstance(explode, bool) else style in ("form", "deepObject"),
        is_json=bool(content),
        reserved=data.get("allowReserved") is True,
    )
