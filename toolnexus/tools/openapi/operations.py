"""One operation: its arguments, and the request that they make."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from toolnexus.core.values import frozen
from toolnexus.errors import ConfigError, ToolError
from toolnexus.tools.http.request import HttpRequest
from toolnexus.tools.http.template import UrlTemplate
from toolnexus.tools.openapi.bodies import Body, read_body
from toolnexus.tools.openapi.document import Document
from toolnexus.tools.openapi.parameters import Parameter, read_parameters
from toolnexus.tools.openapi.report import Place, Report
from toolnexus.tools.openapi.schemas import Schema, Schemas
from toolnexus.tools.openapi.security import Security
from toolnexus.tools.openapi.servers import Servers

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
BODY = "body"
MAX_DESCRIPTION = 1_000
"""Characters of a description: it is read by a model in every turn."""
_NO_WORD = re.compile(r"[^A-Za-z0-9]+")


@frozen()
class Operation:
    """An operation as it stands in a document."""

    method: str
    path: str
    place: Place
    data: Mapping[str, Any]
    path_item: Mapping[str, Any]

    @property
    def identity(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def name(self) -> str:
        """Its `operationId`, or a name made of method and path."""
        given = self.data.get("operationId")
        if isinstance(given, str) and given.strip():
            return given.strip()
        return _NO_WORD.sub("_", f"{self.method}_{self.path}").strip("_")

    @property
    def description(self) -> str:
        texts = [self.data.get("summary"), self.data.get("description")]
        told = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
        text = "\n\n".join(dict.fromkeys(told)) or f"{self.method.upper()} {self.path}"
        if self.data.get("deprecated") is True:
            text = f"Deprecated. {text}"
        return text if len(text) <= MAX_DESCRIPTION else f"{text[:MAX_DESCRIPTION]}…"


def read_operations(document: Document, report: Report) -> list[Operation]:
    """All operations, in the order of the document."""
    paths = document.table(document.root, "paths", (), report)
    out: list[Operation] = []
    for path, item in paths.items():
        if path.startswith("x-"):
            continue
        place: Place = ("paths", path)
        if not path.startswith("/"):
            report.add(place, "a path begins with '/'")
            continue
        data = document.object(item, place, report)
        if data is None:
            continue
        for method in METHODS:
            if data.get(method) is not None:
                where = (*place, method)
                operation = document.object(data[method], where, report)
                if operation is not None:
                    out.append(Operation(method, path, where, operation, data))
    return out


@frozen(kw_only=True)
class Reader:
    """What reading the operations of one document needs."""

    document: Document
    schemas: Schemas
    servers: Servers
    security: Security

    def read(self, operation: Operation, report: Report) -> tuple[Mapping[str, Any], OperationRequest] | None:
        """The schema of the arguments and what makes a request of them; None, and findings, if broken."""
        place, data = operation.place, operation.data
        lists = [(place[:-1], operation.path_item), (place, data)]
        known = read_parameters(lists, self.document, self.schemas, report)
        parameters = [p for p in known if not self.security.is_given(p)]
        body = read_body(data, place, self.document, self.schemas, report)
        base = self.servers.base(lists[::-1], report)
        url = None if base is None else _url(base, operation, report)
        if url is not None:
            parameters = _placed(parameters, url, place, report)
        arguments = _named(parameters, body)
        schema = self._schema(arguments, body, report)
        if url is None or report.lines:
            return None
        self.security.note(data)
        accept = "" if "accept" in self.security.keys.names else ", ".join(self._answers(data))
        method, taken = operation.method.upper(), self.security.query
        return schema, OperationRequest(method, url, arguments, body, accept, taken)

    def _schema(
        self, arguments: Mapping[str, Parameter], body: Body | None, report: Report
    ) -> dict[str, Any]:
        every: dict[str, Parameter | Body] = {**arguments, **({BODY: body} if body is not None else {})}
        properties = {name: _described(part.schema, part.description) for name, part in every.items()}
        required = [name for name, part in every.items() if part.required]
        definitions = self.schemas.definitions([part.schema for part in every.values()], report)
        return {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
            **({"$defs": definitions} if definitions else {}),
        }

    def _answers(self, operation: Mapping[str, Any]) -> Iterator[str]:
        """The media types of a good answer."""
        responses = self.document.table(operation, "responses", (), Report())
        good = sorted(code for code in responses if code.startswith("2"))
        for code in [*good, "default"][:1]:
            response = self.document.table(responses, code, (), Report())
            for kind in self.document.table(response, "content", (), Report()):
                if kind.isascii() and kind.isprintable():
                    yield kind


class OperationRequest:
    """Turns the arguments of a call into a request."""

    def __init__(
        self,
        method: str,
        url: UrlTemplate,
        arguments: Mapping[str, Parameter],
        body: Body | None,
        accept: str,
        taken: Iterable[str],
    ) -> None:
        """`taken`: names of the query that the host gives values to."""
        self.method = method
        self._url = url
        self._arguments = arguments
        self._body = body
        self._accept = accept
        self._names = Counter(p.name for p in arguments.values() if p.within == "query")
        self._names.update((*taken, *url.query_names))

    def __call__(self, arguments: dict[str, Any]) -> HttpRequest:
        written: dict[str, str] = {}
        query: list[str] = []
        headers = {"Accept": self._accept} if self._accept else {}
        cookies: list[str] = []
        for argument, parameter in self._arguments.items():
            value = arguments.get(argument)
            if argument not in arguments or (value is None and not parameter.is_json):
                continue
            if parameter.within == "path":
                written[parameter.name] = parameter.in_path(value)
            elif parameter.within == "query":
                query += self._in_query(parameter, value)
            elif parameter.within == "header":
                headers[parameter.name] = parameter.in_header(value)
            else:
                cookies += parameter.in_cookie(value)
        if missing := [name for name in self._url.names if name not in written]:
            raise ToolError(f"{missing[0]!r} must not be null: it is part of the address")
        if cookies:
            headers["Cookie"] = "; ".join(cookies)
        content = None
        if self._body is not None and BODY in arguments:
            content, headers["Content-Type"] = self._body.encode(arguments[BODY])
        url = self._url.fill_encoded(written, query)
        return HttpRequest(method=self.method, url=url, headers=headers, body=content)

    def _in_query(self, parameter: Parameter, value: Any) -> list[str]:
        """The pairs of a parameter. An object that is spread out must not speak for another one."""
        if isinstance(value, dict) and parameter.explode and parameter.style == "form":
            for key in cast("dict[str, Any]", value):
                if self._names[key] - (key == parameter.name):
                    raise ToolError(
                        f"{parameter.name!r} must not hold {key!r}: it is a value of its own here"
                    )
        return parameter.in_query(value)


def _url(base: str, operation: Operation, report: Report) -> UrlTemplate | None:
    """The template of the address: the path behind the base, and the queries of both."""
    address, _, query = base.partition("?")
    whole = address.rstrip("/") + operation.path
    if query:
        whole += ("&" if "?" in whole else "?") + query
    try:
        return UrlTemplate(whole, "its address", foreign=True)
    except ConfigError as error:
        report.add(operation.place, str(error))
        return None


def _placed(parameters: list[Parameter], url: UrlTemplate, place: Place, report: Report) -> list[Parameter]:
    """`parameters` without those of the path that have no place in it."""
    names = url.names
    known = [p.name for p in parameters if p.within == "path"]
    for name in names:
        if name not in known:
            report.add(place, f"the path holds {{{name}}}, and no path parameter has this name")
    return [p for p in parameters if p.within != "path" or p.name in names]


def _named(parameters: Sequence[Parameter], body: Body | None) -> dict[str, Parameter]:
    """The arguments of a call: the name of a parameter, its place before it where others have it, too."""
    counts = Counter(p.name for p in parameters)
    if body is not None:
        counts[BODY] += 1
    out: dict[str, Parameter] = {}
    for parameter in sorted(parameters, key=lambda p: counts[p.name] > 1):
        name = parameter.name if counts[parameter.name] == 1 else f"{parameter.within}_{parameter.name}"
        while name in out or (body is not None and name == BODY):
            name += "_"
        out[name] = parameter
    return out


def _described(schema: Schema, description: str) -> Any:
    node = schema.node
    if not description or not isinstance(node, dict):
        return node
    return {**cast("dict[str, Any]", node), "description": description}
