"""Bodies of requests: which of the media types is sent, and how a value is written in it."""

from __future__ import annotations

import binascii
import json
import os
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import field as attribute
from typing import Any, cast

from toolnexus.core.values import frozen
from toolnexus.errors import ToolError
from toolnexus.tools.http.values import encoded, text_of
from toolnexus.tools.openapi.document import Document
from toolnexus.tools.openapi.parameters import STYLES, Parameter
from toolnexus.tools.openapi.report import Place, Report
from toolnexus.tools.openapi.schemas import Schema, Schemas

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
_BASE64: Mapping[str, Any] = {"type": "string", "contentEncoding": "base64"}
_BINARY = re.compile(r"(image|audio|video|font)/(?!svg).*|application/(octet-stream|pdf|zip|gzip|x-tar)")
_NAME_ESCAPES = {'"': "%22", "\r": "%0D", "\n": "%0A"}
"""As browsers write names in a multipart body."""


@frozen(kw_only=True)
class Body:
    """What an operation takes as its body."""

    media_type: str
    required: bool
    schema: Schema
    description: str
    binary: bool = False
    """Whether the value is base64 of what is sent."""
    files: frozenset[str] = frozenset()
    """Members whose values are base64 of what is sent."""
    encoding: Mapping[str, Mapping[str, Any]] = attribute(default_factory=dict[str, Mapping[str, Any]])
    """What the document says of how members are written."""

    def encode(self, value: Any) -> tuple[bytes, str]:
        """The bytes and their content type. Raises `ToolError` for what cannot be sent so."""
        kind = self.media_type
        if _is_json(kind):
            return json.dumps(value).encode(), kind
        if kind == FORM:
            return "&".join(self._pairs(_members(value))).encode(), kind
        if kind == MULTIPART:
            return self._multipart(_members(value))
        if self.binary:
            return _unpacked(value, "body"), kind
        text = text_of(value)
        encoded(text)  # half of a surrogate pair
        return text.encode(), kind

    def _pairs(self, members: Mapping[str, Any]) -> list[str]:
        return [
            pair
            for name, value in members.items()
            if value is not None
            for pair in self._field(name).in_query(value)
        ]

    def _field(self, name: str) -> Parameter:
        """A member as it is written in a form: like a parameter of the query, an object as JSON."""
        told = self.encoding.get(name, {})
        style = told.get("style") or "form"
        explode = told.get("explode")
        styled = any(word in told for word in ("style", "explode", "allowReserved"))
        return Parameter(
            name=name,
            within="query",
            required=False,
            schema=Schema(None),
            description="",
            style=style,
            explode=explode if isinstance(explode, bool) else style in ("form", "deepObject"),
            objects_as_json=not styled,
            reserved=told.get("allowReserved") is True,
        )

    def _multipart(self, members: Mapping[str, Any]) -> tuple[bytes, str]:
        boundary = os.urandom(16).hex()
        out = bytearray()
        for name, value in members.items():
            for item in cast("list[Any]", value) if isinstance(value, list) else [value]:
                if item is None:
                    continue
                out += f"--{boundary}\r\n".encode()
                out += self._part(name, item)
        out += f"--{boundary}--\r\n".encode()
        return bytes(out), f"{MULTIPART}; boundary={boundary}"

    def _part(self, name: str, value: Any) -> bytes:
        encoded(name)  # half of a surrogate pair
        safe = "".join(_NAME_ESCAPES.get(c, c) for c in name)
        told = self.encoding.get(name, {}).get("contentType")
        kind = told.partition(",")[0].strip() if isinstance(told, str) and told.isprintable() else None
        head = f'Content-Disposition: form-data; name="{safe}"'
        if name in self.files:
            data = _unpacked(value, name)
            head += f'; filename="{safe}"'
            kind = kind or "application/octet-stream"
        else:
            is_json = isinstance(value, dict) or (kind is not None and _is_json(kind))
            text = json.dumps(value) if is_json else text_of(value)
            encoded(text)
            data, kind = text.encode(), kind or ("application/json" if is_json else None)
        kind_line = f"\r\nContent-Type: {kind}" if kind else ""
        return f"{head}{kind_line}\r\n\r\n".encode() + data + b"\r\n"


def read_body(
    operation: Mapping[str, Any], place: Place, document: Document, schemas: Schemas, report: Report
) -> Body | None:
    """The body of an operation in the media type that can say most; None without one."""
    if operation.get("requestBody") is None:
        return None
    place = (*place, "requestBody")
    data = document.object(operation["requestBody"], place, report)
    if data is None:
        return None
    content = document.table(data, "content", place, report)
    if not content:
        report.add(place, "a request body needs content")
        return None
    told = min(content, key=lambda kind: _rank(_mime(kind)))
    place = (*place, "content", told)
    media = document.object(content[told], place, report) or {}
    kind = "application/octet-stream" if "*" in told else told.strip()
    if _mime(kind) in (FORM, MULTIPART):
        kind = _mime(kind)
    if not kind.isprintable():
        report.add(place, "a media type must be printable")
        return None
    schema = schemas.sent(media.get("schema", {}), (*place, "schema"), report)
    plain = schemas.plain(media.get("schema", {}))
    texts = not _is_json(kind) and kind not in (FORM, MULTIPART)
    binary = texts and (_is_binary(plain) or (_BINARY.fullmatch(_mime(kind)) is not None))
    files = _files(plain, schemas) if kind == MULTIPART else {}
    if binary:
        schema = Schema({**_BASE64, "description": f"The content ({kind}) in base64."})
    elif texts and not plain:
        schema = Schema({"type": "string"})
    elif files:
        schema = _with_files(schemas.sent(plain, (*place, "schema"), report), files)
    description = data.get("description")
    return Body(
        media_type=kind,
        required=data.get("required") is True,
        schema=schema,
        description=description if isinstance(description, str) else "",
        binary=binary,
        files=frozenset(files),
        encoding=_encoding(media, place, document, report),
    )


def _encoding(
    media: Mapping[str, Any], place: Place, document: Document, report: Report
) -> dict[str, Mapping[str, Any]]:
    out: dict[str, Mapping[str, Any]] = {}
    for name, value in document.table(media, "encoding", place, report).items():
        where = (*place, "encoding", name)
        told = document.object(value, where, report) or {}
        if (style := told.get("style")) is not None and style not in STYLES["query"]:
            report.add(
                where, f"style {style!r} does not go with forms; allowed are {', '.join(STYLES['query'])}"
            )
        out[name] = told
    return out


def _with_files(schema: Schema, files: Mapping[str, Mapping[str, Any]]) -> Schema:
    """The same, with the members that are files as base64."""
    members: dict[str, Any] = schema.node["properties"]
    for name in files.keys() & members.keys():
        file = files[name]
        about = file.get("description") or "The file"
        one = {**_BASE64, "description": f"{about} (content in base64)"}
        members[name] = {"type": "array", "items": one} if file.get("type") == "array" else one
    return schema


def _files(plain: Mapping[str, Any], schemas: Schemas) -> dict[str, Mapping[str, Any]]:
    """The members of a multipart body that are files, or lists of them."""
    members = plain.get("properties")
    found = cast("dict[str, Any]", members) if isinstance(members, dict) else {}
    followed = {name: schemas.plain(member) for name, member in found.items()}
    return {name: member for name, member in followed.items() if _holds_file(member, schemas)}


def _holds_file(plain: Mapping[str, Any], schemas: Schemas) -> bool:
    return _is_binary(schemas.plain(plain.get("items")) if plain.get("type") == "array" else plain)


def _is_binary(plain: Mapping[str, Any]) -> bool:
    """Whether a value is sent as bytes; with a `contentEncoding` it is sent as the text that it is."""
    told = plain.get("contentMediaType")
    return plain.get("format") == "binary" or (
        isinstance(told, str) and "contentEncoding" not in plain and _rank(_mime(told)) > 3
    )


def _rank(kind: str) -> int:
    order = (_is_json(kind), kind == FORM, kind == MULTIPART, kind.startswith("text/"))
    return next((i for i, fits in enumerate(order) if fits), len(order))


def _is_json(kind: str) -> bool:
    kind = _mime(kind)
    return kind.endswith("/json") or kind.endswith("+json")


def _mime(kind: str) -> str:
    return kind.partition(";")[0].strip().lower()


def _members(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ToolError("'body' must be an object: it is sent as the fields of a form")
    return cast("dict[str, Any]", value)


def _unpacked(value: Any, name: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise ToolError(f"{name!r} must be its content in base64") from None
