"""Results and questions of a server, as our values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

import mcp_types as types

from toolnexus.core.messages import MediaPart
from toolnexus.core.suspension import Answer, Request
from toolnexus.core.tools import ToolResult
from toolnexus.errors import ConfigError


def tool_result(result: types.CallToolResult, server: str) -> ToolResult:
    """`result` with each content part once, in its right form, and never an empty text."""
    texts: list[str] = []
    media: list[MediaPart] = []
    spoken: list[str] = []
    for block in result.content:
        match block:
            case types.TextContent():
                spoken.append(block.text)
                texts.append(block.text)
            case types.ImageContent() | types.AudioContent():
                _add_media(media, texts, block.mime_type, block.data)
            case types.ResourceLink():
                kind = f" ({block.mime_type})" if block.mime_type else ""
                texts.append(f"Resource {block.name}: {block.uri}{kind}")
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                texts.append(resource.text)
            case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
                mime_type = resource.mime_type or "application/octet-stream"
                name = str(resource.uri).rsplit("/", 1)[-1] or None
                _add_media(media, texts, mime_type, resource.blob, name)
            case _:
                pass
    if result.structured_content is not None and not _says(spoken, result.structured_content):
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    failed = bool(result.is_error)
    output = "\n".join([t for t in texts if t]) or _silence(media, failed)
    return ToolResult(output=output, is_error=failed, metadata={"server": server}, parts=tuple(media))


def _add_media(
    media: list[MediaPart], texts: list[str], mime_type: str, data: str, name: str | None = None
) -> None:
    """A part, or a sentence when it is none: one broken picture must not take the rest with it.

    Servers are known to send a whole data: URL where its content belongs.
    """
    try:
        media.append(MediaPart(mime_type, data=data.rpartition(";base64,")[2], name=name))
    except ConfigError as error:
        texts.append(f"[a part that cannot be read: {error}]")


def _says(spoken: list[str], structured: Any) -> bool:
    """Whether the text tells the structured content already.

    Servers repeat it as JSON, or as the value of a wrapper such as `{"result": …}`; those of the
    Python SDK write a list as one text per item.
    """
    if not spoken:
        return False
    parsed = [_parsed(text) for text in spoken]
    wanted = [structured]
    if isinstance(structured, dict) and len(inner := cast("dict[str, Any]", structured)) == 1:
        wanted += [value for key, value in inner.items() if key in _WRAPPERS]
    said = [*parsed, *spoken, "\n".join(spoken), _parsed("".join(spoken)), parsed, spoken]
    return any(value in said for value in wanted if value != [])


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return _NOTHING


_NOTHING = object()
_WRAPPERS = ("result", "content", "text", "output")


def _silence(media: list[MediaPart], failed: bool) -> str:
    if media:
        return f"(attached: {', '.join([part.mime_type for part in media])})"
    return "The tool failed without saying why." if failed else "The tool returned nothing."


def question(params: types.ElicitRequestParams, server: str) -> Request:
    """What a server wants to know, as a `Request`."""
    if isinstance(params, types.ElicitRequestURLParams):
        return Request(kind="authorization", prompt=params.message, url=params.url, data={"server": server})
    return Request(
        kind="input", prompt=params.message, data={"schema": params.requested_schema, "server": server}
    )


def elicit_result(request: Request, answer: Answer | None) -> types.ElicitResult:
    """`answer` in the server's words. Nobody there to answer counts as declined."""
    if answer is None or (not answer.ok and answer.reason in (None, "declined")):
        return types.ElicitResult(action="decline")
    if not answer.ok:
        return types.ElicitResult(action="cancel")
    if request.kind == "authorization":
        return types.ElicitResult(action="accept")
    content = _content(answer.data, request.data or {})
    return types.ElicitResult(action="cancel" if content is None else "accept", content=content)


def _content(data: Any, details: Mapping[str, Any]) -> dict[str, Any] | None:
    """The form: a mapping, nothing, or the value of its only field; defaults for what is left out."""
    schema = cast("Mapping[str, Any]", details.get("schema") or {})
    fields = cast("Mapping[str, Any]", schema.get("properties") or {})
    if isinstance(data, Mapping):
        form = {str(k): v for k, v in cast("Mapping[Any, Any]", data).items()}
    elif data is None:
        form = {}
    elif len(fields) == 1:
        form = {str(next(iter(fields))): data}
    else:
        return None
    return {**_defaults(fields), **form} if all(_plain(v) for v in form.values()) else None


def _defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    given = {
        n: cast("Any", f)["default"] for n, f in fields.items() if isinstance(f, Mapping) and "default" in f
    }
    return {name: value for name, value in given.items() if value is not None and _plain(value)}


def _plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(v, str) for v in cast("Iterable[Any]", value))
    return value is None or isinstance(value, str | int | float | bool)
