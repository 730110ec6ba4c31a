"""`openapi_tools`: an OpenAPI document as tools, or as a source of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, overload

from toolnexus.core.tools import Tool
from toolnexus.errors import ConfigError
from toolnexus.tools.filters import FilterSpec
from toolnexus.tools.http.tool import TIMEOUT
from toolnexus.tools.openapi.build import Options, build, told
from toolnexus.tools.openapi.read import is_url, read_document
from toolnexus.tools.openapi.source import OpenApiSource

logger = logging.getLogger("toolnexus.openapi")


@overload
def openapi_tools(
    document: Mapping[str, Any] | Path,
    *,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    filter: FilterSpec = None,
    timeout: float = TIMEOUT,
) -> list[Tool]: ...
@overload
def openapi_tools(
    document: str,
    *,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    filter: FilterSpec = None,
    timeout: float = TIMEOUT,
) -> list[Tool] | OpenApiSource: ...
def openapi_tools(
    document: Mapping[str, Any] | str | Path,
    *,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    filter: FilterSpec = None,
    timeout: float = TIMEOUT,
) -> list[Tool] | OpenApiSource:
    """A tool for each operation of an OpenAPI document (3.0, 3.1, 3.2); `tools=[*openapi_tools(…)]`.

    * `document`: a mapping, the path of a JSON or YAML file, or such a text: the tools. A URL: a
      source, which fetches the document when its client opens.
    * `base_url`: where requests go, in place of the servers that the document names. Values of its
      query, such as `?key=${NAME}`, go with each request.
    * `headers`: sent with each request to that host, and to no other; see `http_tool`. What they give
      is never asked of a model, and neither is what a security scheme of the document is about.
    * `filter`: which operations, by tool name or `operationId`: names and globs, or `{name: bool}`.
    * `timeout`: seconds for a call.

    Raises `ConfigError` with a line for everything in the operations that pass the filter that cannot
    be called. A source leaves such operations out with a warning, and when nothing is left, or the
    document cannot be had, the client goes on without it.
    """
    if is_url(document):
        url = str(document).strip()
        return OpenApiSource(url, base_url=base_url, headers=headers, filter=filter, timeout=timeout)
    root, where = read_document(document)
    built = build(root, where, Options.of(where, base_url, headers, filter, timeout))
    if built.findings:
        raise ConfigError(told(built.findings, where))
    if built.advice is not None:
        logger.warning("%s: %s", where, built.advice)
    return [*built.tools]
