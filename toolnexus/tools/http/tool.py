"""`http_tool`: one request as a tool."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast, get_args

from toolnexus.core.names import MAX_NAME, did_you_mean, listed
from toolnexus.core.options import items, seconds, wrong
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.errors import ConfigError
from toolnexus.protocols.http import HTTP_POOL, HttpPool
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.http.answers import MODES, ResultMode, result_of
from toolnexus.tools.http.keys import Keys
from toolnexus.tools.http.request import HttpRequest
from toolnexus.tools.http.template import UrlTemplate
from toolnexus.tools.http.values import pairs, text_of

BodyForm = Literal["json", "form", "raw"]
FORMS: tuple[BodyForm, ...] = get_args(BodyForm)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
IDEMPOTENT = ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE")
TIMEOUT = 30.0
"""Seconds."""
MAX_TIMEOUT = 24 * 60 * 60.0
_NO_BODY = ("GET", "HEAD")
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME}}}")


class HttpTool(Tool):
    """A tool whose call is one HTTP request. Made by `http_tool` and `openapi_tools`."""

    def __init__(
        self,
        name: str,
        description: str,
        input_schema: Mapping[str, Any],
        request: Callable[[dict[str, Any]], HttpRequest],
        *,
        method: str,
        keys: Keys,
        timeout: float,
        result_mode: ResultMode = "text",
        origin: str | None = None,
        original_name: str | None = None,
    ) -> None:
        super().__init__(
            name,
            description,
            input_schema,
            self._call,
            source="http",
            origin=origin,
            original_name=original_name,
            idempotent=method in IDEMPOTENT,
        )
        self._request = request
        self._keys = keys
        self._timeout = timeout
        self._mode: ResultMode = result_mode

    @property
    def secrets(self) -> Sequence[str]:
        """Values that must never be shown, as far as they are known."""
        return self._keys.secrets

    async def _call(self, arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        from toolnexus.tools.http.exchange import exchange  # loads aiohttp

        request = self._request(arguments)
        shared = ctx.get(HTTP_POOL)
        pool = HttpPool() if shared is None else shared
        try:
            mask = ctx.context.run.redact.add
            answer = await exchange(request, self._keys, pool, self._timeout, mask)
        finally:
            if shared is None:
                await pool.aclose()
        return await result_of(answer, self._mode)


def http_tool(
    *,
    name: str,
    description: str,
    url: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    query: Sequence[str] = (),
    body: BodyForm = "json",
    input_schema: Mapping[str, Any] | None = None,
    timeout: float = TIMEOUT,
    result_mode: ResultMode = "text",
) -> HttpTool:
    """A tool that sends one HTTP request.

    * `url`: absolute, with `{placeholders}` in its path and query. An argument fills its place
      percent-encoded and can change nothing else.
    * `method`: `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE` or `OPTIONS`.
    * `headers`: sent with each request to the host of `url`, and to no other. `${NAME}`, there and in
      values of the query of `url`, is looked up in the environment for each request; no model,
      event, log or error shows it.
    * `query`: the arguments that go into the query. With `GET` and `HEAD` all that fill no placeholder do.
    * `body`: how the other arguments are sent: one JSON object, a form, or `raw`, the text of the
      argument `body`.
    * `input_schema`: of the arguments; without it every placeholder and name in `query` is a text.
    * `timeout`: seconds for the whole call.
    * `result_mode`: `text`, the body; `json`, one line of JSON; `status+text`, with the status before it.
      Images and files are parts of the result in each mode.

    A status other than 2xx is an error result, `HTTP <status>: <body>`. Raises `ConfigError`.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(f"tool name {name!r} is not allowed; use 1 to {MAX_NAME} of A-Z a-z 0-9 _ -")
    where = f"http tool {name!r}"
    if not isinstance(description, str) or not description.strip():
        raise wrong(f"{where}: description", description, "say what it does: a model chooses by it")
    verb = method.upper() if isinstance(method, str) else method
    _among(f"{where}: method", verb, METHODS)
    _among(f"{where}: body", body, FORMS)
    _among(f"{where}: result_mode", result_mode, MODES)
    seconds(f"{where}: timeout", timeout)
    if not 0 < timeout <= MAX_TIMEOUT:
        raise ConfigError(f"{where}: timeout={timeout!r}; give more than 0 seconds, and at most a day")
    if verb in _NO_BODY and body != "json":
        raise ConfigError(f"{where}: body={body!r}; a {verb} request has none, its arguments are the query")
    template = UrlTemplate(url, f"{where}: url")
    keys = Keys({} if headers is None else headers, template.keys, where)
    names = _query_names(query, where)
    schema = _schema(input_schema, template, names, body, where)
    request = _Request(verb, template, names, body, typed="content-type" in keys.names)
    return HttpTool(
        name, description, schema, request, method=verb, keys=keys, timeout=timeout, result_mode=result_mode
    )


class _Request:
    """Turns arguments into a request."""

    def __init__(
        self, method: str, url: UrlTemplate, query: Sequence[str], body: BodyForm, *, typed: bool
    ) -> None:
        self._method = method
        self._url = url
        self._placed = url.names
        self._query = query
        self._body: BodyForm = body
        self._typed = typed
        """Whether the host says of what type the body is."""

    def __call__(self, arguments: dict[str, Any]) -> HttpRequest:
        rest = {key: value for key, value in arguments.items() if key not in self._placed}
        asked = rest if self._method in _NO_BODY else {k: rest[k] for k in self._query if k in rest}
        rest = {key: value for key, value in rest.items() if key not in asked}
        body, kind = self._content(rest) if rest else (None, "")
        return HttpRequest(
            method=self._method,
            url=self._url.fill(arguments, pairs(asked)),
            headers={} if body is None or self._typed else {"Content-Type": kind},
            body=body,
        )

    def _content(self, rest: dict[str, Any]) -> tuple[bytes | None, str]:
        if self._body == "json":
            return json.dumps(rest).encode(), "application/json"
        if self._body == "form":
            return "&".join(pairs(rest)).encode(), "application/x-www-form-urlencoded"
        text = rest.get("body")
        if text is None:
            return None, ""
        return text_of(text).encode("utf-8", "replace"), "text/plain; charset=utf-8"


def _among(option: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        near = did_you_mean(value, allowed) if isinstance(value, str) else ""
        raise wrong(option, value, f"allowed are {', '.join(map(repr, allowed))}{near}")


def _query_names(query: Any, where: str) -> list[str]:
    names = items(f"{where}: query", query, "give the names of arguments, such as query=['q']")
    if bad := [name for name in names if not isinstance(name, str) or not name]:
        raise wrong(f"{where}: query", bad[0], "it holds the names of arguments")
    return list(dict.fromkeys(cast("Sequence[str]", names)))


def _schema(
    given: Mapping[str, Any] | None, url: UrlTemplate, query: Sequence[str], body: BodyForm, where: str
) -> Mapping[str, Any]:
    """The schema of the arguments. Raises `ConfigError` where it and the request do not fit together."""
    placed = url.names
    if clash := [name for name in query if name in placed]:
        raise ConfigError(f"{where}: {clash[0]!r} is a placeholder of the url and in query; keep one")
    if given is None:
        properties = {name: {"type": "string"} for name in (*placed, *query)}
        if body == "raw":
            properties["body"] = {"type": "string"}
        out: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**out, "required": placed} if placed else out
    if not isinstance(given, Mapping):
        raise wrong(f"{where}: input_schema", given, "give a JSON Schema of the arguments object")
    try:
        given = cast("Mapping[str, Any]", json.loads(json.dumps(given, allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: input_schema is no JSON: {error}") from None
    properties = given.get("properties")
    if isinstance(properties, Mapping):  # otherwise nobody can say what there is
        known = [*cast("Mapping[str, Any]", properties)]
        for name in (*placed, *query):
            if name not in known:
                raise ConfigError(
                    f"{where}: {name!r} of the {'url' if name in placed else 'query'} is no property of "
                    f"input_schema; there are {listed(known)}{did_you_mean(name, known)}"
                )
        if body == "raw" and (lost := [n for n in known if n not in (*placed, *query, "body")]):
            raise ConfigError(f"{where}: with body='raw' only 'body' is sent, not {listed(lost)}")
    required = given.get("required")
    duties = cast("list[Any]", required) if isinstance(required, list) else []
    more = [name for name in placed if name not in duties]
    return {**given, "required": [*duties, *more]} if more else given
