"""HTTP tools and OpenAPI documents of a config document."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from toolnexus.config import shape
from toolnexus.config.values import Filler
from toolnexus.core.tools import Tool
from toolnexus.errors import ConfigError
from toolnexus.tools.http.tool import http_tool
from toolnexus.tools.openapi.tools import openapi_tools
from toolnexus.tools.source import ToolSource

Made = Sequence[Tool | ToolSource]
OPTION = "tools"


def read_tools(root: shape.Root, filler: Filler) -> Callable[[], Made]:
    """What makes the tools under `http` and `openapi`. Tools are made once, sources for each client."""
    makers: list[Callable[[], Iterable[Tool | ToolSource]]] = []
    for i, entry in enumerate(root.http or ()):
        options = _options(entry, f"http[{i}]", ("url",), filler)
        makers += _maker(f"http[{i}]", filler, lambda options=options: [http_tool(**options)])
    for i, entry in enumerate(root.openapi or ()):
        makers += _of_document(entry, f"openapi[{i}]", filler)
    return lambda: [tool for make in makers for tool in make()]


def _of_document(
    entry: shape.OpenApi, place: str, filler: Filler
) -> list[Callable[[], Iterable[Tool | ToolSource]]]:
    if (entry.document is None) == (entry.url is None):
        filler.findings.append(f"{place}: give either 'document', the path of a file, or 'url'")
        return []
    options = _options(entry, place, ("base_url",), filler)
    options.pop("document", None)
    options.pop("url", None)
    if entry.url is not None:
        url = _address(entry.url, f"{place}.url", filler)
        if url is not None and not url.startswith(("http://", "https://")):
            filler.findings.append(f"{place}.url: it must begin with http:// or https://")
            return []
        return _maker(place, filler, partial(openapi_tools, url, **options)) if url is not None else []
    path = filler.path(entry.document or "", f"{place}.document", OPTION)
    if path is not None and not os.path.isfile(path):
        filler.lacks(OPTION, f"{place}.document", f"there is no file {str(path)!r}")
        return []
    return _maker(place, filler, partial(openapi_tools, path, **options)) if path is not None else []


def _maker(
    place: str, filler: Filler, make: Callable[[], Iterable[Tool | ToolSource]]
) -> list[Callable[[], Iterable[Tool | ToolSource]]]:
    try:
        made = list(make())
    except ConfigError as error:
        filler.findings += [f"{place}: {line}" for line in filler.redact(str(error)).splitlines()]
        return []
    return [make if any(not isinstance(entry, Tool) for entry in made) else lambda: made]


def _options(
    entry: shape.OpenApi | shape.Http, place: str, addresses: Sequence[str], filler: Filler
) -> dict[str, Any]:
    """The options that an entry gives; headers keep their variables, which are looked up for each request."""
    out = entry.given()
    headers: Mapping[str, str] = out.get("headers", {})
    for name, text in headers.items():
        filler.text(text, f"{place}.headers.{name}", OPTION)
    for key in addresses:
        if key in out:
            out[key] = _address(out[key], f"{place}.{key}", filler) or out[key].partition("?")[0]
    return out


def _address(text: str, key: str, filler: Filler) -> str | None:
    """An address whose query keeps its variables."""
    address, mark, query = text.partition("?")
    filled = filler.url(address, key, OPTION)
    if query:
        filler.text(query, key, OPTION)
    return None if filled is None else f"{filled}{mark}{query}"
