"""A tool for each operation of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolnexus.core.names import model_names
from toolnexus.core.options import seconds
from toolnexus.core.values import frozen
from toolnexus.errors import ConfigError
from toolnexus.tools.filters import NameFilter
from toolnexus.tools.http.keys import Keys
from toolnexus.tools.http.template import UrlTemplate
from toolnexus.tools.http.tool import MAX_TIMEOUT, HttpTool
from toolnexus.tools.openapi.document import Document
from toolnexus.tools.openapi.operations import Operation, Reader, read_operations
from toolnexus.tools.openapi.report import Report
from toolnexus.tools.openapi.schemas import Schemas
from toolnexus.tools.openapi.security import Security
from toolnexus.tools.openapi.servers import Servers, checked_base

_MOST_LINES = 50


@frozen(kw_only=True)
class Options:
    """What the host says beside the document. Raises `ConfigError` that begins with `where`."""

    base: UrlTemplate | None
    keys: Keys
    filter: NameFilter
    timeout: float

    @classmethod
    def of(
        cls, where: str, base_url: str | None, headers: Mapping[str, str] | None, filter: Any, timeout: float
    ) -> Options:
        seconds(f"{where}: timeout", timeout)
        if not 0 < timeout <= MAX_TIMEOUT:
            raise ConfigError(f"{where}: timeout={timeout!r}; give more than 0 seconds, and at most a day")
        base = checked_base(base_url, where)
        keys = Keys({} if headers is None else headers, base.keys if base is not None else {}, where)
        return cls(base=base, keys=keys, filter=NameFilter.of(filter, f"{where}: filter"), timeout=timeout)


@frozen()
class Built:
    """The tools of a document."""

    tools: list[HttpTool]
    findings: list[str]
    """What is wrong; the operations that have it are left out."""
    advice: str | None
    """What else is to know."""


def build(root: dict[str, Any], where: str, options: Options, address: str | None = None) -> Built:
    """A tool for each operation that passes the filter; `address` is where the document was fetched.

    Raises `ConfigError` when the filter names an operation that is not there.
    """
    report = Report()
    document = Document(root)
    operations = read_operations(document, report)
    names = model_names([(operation.name, operation.identity) for operation in operations])
    options.filter.check([*names, *(o.name for o in operations)], f"{where}: filter", there="operations")
    query = frozenset(options.base.query_names if options.base is not None else ())
    security = Security(document, options.keys, query)
    servers = Servers(document, options.base, address)
    reader = Reader(document=document, schemas=Schemas(document), servers=servers, security=security)
    tools: list[HttpTool] = []
    for name, operation in zip(names, operations, strict=True):
        if options.filter.admits(name, operation.name):
            own = Report()
            if (tool := _tool(name, operation, reader, document.title, options, own)) is not None:
                tools.append(tool)
            report.take(own.lines)
    advice = security.advice
    if not operations and not report.lines:
        if "paths" in root or "webhooks" not in root:
            report.add(("paths",), "there is no operation")
        else:
            advice = "it has webhooks only, which others call; there are no tools"
    return Built(tools, report.lines, advice)


def _tool(
    name: str, operation: Operation, reader: Reader, title: str, options: Options, report: Report
) -> HttpTool | None:
    found = reader.read(operation, report)
    if found is None:
        return None
    schema, request = found
    return HttpTool(
        name,
        operation.description,
        schema,
        request,
        method=request.method,
        keys=options.keys,
        timeout=options.timeout,
        origin=title,
        original_name=operation.name,
    )


def told(lines: list[str], where: str) -> str:
    """Findings as one text, a line each."""
    more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    return "\n".join(f"{where}: {line}" for line in [*lines[:_MOST_LINES], *more])
