"""The wire port: bytes out, parsed JSON back.

What it is: one HTTP request to one endpoint, with its errors in our own terms.
What it is not: a style (it knows no request body), a retry (it tries once).
Above: `openai` and `anthropic`. Below: `http` (aiohttp), `sdk` (an official client object).
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

from toolnexus.errors import ModelContextError, ModelHTTPError, ModelResponseError
from toolnexus.models.keys import KEYS
from toolnexus.runtime.redact import Redactor

CONNECT = 10.0
"""Seconds that connecting may take."""
SILENCE = 120.0
"""Seconds that an endpoint may stay without sending a byte."""

_EXCERPT = 500
_LONGEST_ID = 128
_LONGEST = 20_000
_RETRIED = frozenset((408, 409, 429))
_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "quota_exceeded")

_STATUS = {
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


@runtime_checkable
class Wire(Protocol):
    """What a model needs of a transport. Safe to use from many requests at once."""

    @property
    def host(self) -> str:
        """The host that requests go to, with its port when it has one."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that no text may show: the key, the header values that a user gave."""
        ...

    async def post(self, path: str, body: bytes) -> dict[str, Any]:
        """The JSON object that the endpoint answers with.

        Raises `ModelHTTPError`, `ModelConnectionError`, or `ModelResponseError` when the answer is
        no JSON object. Never follows a redirect, never tries twice.
        """
        ...

    def stream(self, path: str, body: bytes) -> AsyncGenerator[dict[str, Any]]:
        """The events of a streamed answer, one object each, in order.

        Ends with the stream, whatever it said last. An endpoint that does not stream gives its whole
        reply as the one event. Closing the generator closes the request. Raises like `post`.
        """
        ...

    async def aclose(self) -> None:
        """Close idle connections; the next request opens them again."""
        ...


@runtime_checkable
class MediaWire(Protocol):
    """What a model needs of a transport for more than JSON. Errors are those of `Wire`."""

    async def fetch(self, path: str, body: bytes) -> tuple[bytes, str]:
        """The content that the endpoint answers with, whatever it is, and its kind."""
        ...

    async def upload(
        self, path: str, fields: Sequence[tuple[str, str]], file: tuple[str, str, bytes]
    ) -> dict[str, Any]:
        """The JSON object that the endpoint answers a form with. `file` is name, kind and content."""
        ...


def http_error(
    host: str, status: int, headers: Mapping[str, str], body: bytes | str, redact: Redactor
) -> ModelHTTPError:
    """The error for an answer with an error status, its text free of secrets and short."""
    text = body if isinstance(body, str) else body.decode("utf-8", "replace")
    message, code = _explain(text[:_LONGEST])
    if 300 <= status < 400:
        message = "redirects are not followed, because a key must not reach another host; set base_url"
    error = status_error(host, status, message, code, redact, retry_after(headers))
    error.request_id = redact(headers.get("x-request-id") or headers.get("request-id") or "")[:_LONGEST_ID]
    return error


def status_error(
    host: str, status: int, message: str, code: str, redact: Redactor, wait: float | None = None
) -> ModelHTTPError:
    """The error for `status`, also when it came inside a stream or a reply."""
    from toolnexus.models.overflow import is_overflow, window

    quota = any(word in code or word in message for word in _QUOTA)
    hint = _advice(host, status) if wait is None else f"; it asks to wait {wait:g} s"
    label = f" ({code})" if code else ""
    said = " ".join(redact(message).split())[:_EXCERPT] or "no message"
    text = redact(f"{host} answered HTTP {status}{label}: {said}{hint}")
    if is_overflow(status, message, code):
        advice = "; hooks=[compactor(…)] keeps long runs short enough"
        error: ModelHTTPError = ModelContextError(text + advice, status=status, window=window(message))
    else:
        error = ModelHTTPError(
            text,
            status=status,
            retry_after=wait,
            retryable=not quota and (status in _RETRIED or status >= 500),
        )
    error.code = redact(code)[:_LONGEST_ID]
    return error


def parse_reply(host: str, body: bytes, redact: Redactor) -> dict[str, Any]:
    """The JSON object in `body`. Raises `ModelResponseError` when it is none."""
    try:
        data: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        shown = redact(body[:_LONGEST].decode("utf-8", "replace"))[:_EXCERPT]
        raise ModelResponseError(f"{host} answered with something that is no JSON: {shown!r}") from error
    if not isinstance(data, dict):
        raise ModelResponseError(f"{host} answered with a JSON {type(data).__name__}, not an object")
    return cast("dict[str, Any]", data)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks to wait, from milliseconds, seconds or a date."""
    try:
        if (millis := headers.get("retry-after-ms")) is not None:
            return max(0.0, float(millis) / 1000)
    except ValueError:
        pass
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def text_in(host: str, data: Mapping[str, Any], field: str) -> str:
    """The text in `field` of a reply, `""` when it is left out; `ModelResponseError` for another type."""
    value = data.get(field) or ""
    if not isinstance(value, str):
        kind = type(value).__name__
        raise ModelResponseError(f"{host} sent a reply of another shape: {field!r} is no text but {kind}")
    return value


def error_parts(error: Any) -> tuple[str, str]:
    """Message and code of an error object as the styles and their many servers write it."""
    if not isinstance(error, dict):
        return str(error), ""
    fields = cast("dict[str, Any]", error)
    message = fields.get("message") or fields.get("detail") or fields.get("error") or fields
    code = fields.get("code") or fields.get("type") or fields.get("status") or ""
    return message if isinstance(message, str) else json.dumps(message), str(code)


def event_error(host: str, error: Any, redact: Redactor) -> ModelHTTPError:
    """The error for one that came as data: in a stream, or in a reply with a good status."""
    message, code = error_parts(error)
    status = int(code) if code.isdigit() and 400 <= int(code) < 600 else _STATUS.get(code, 500)
    return status_error(host, status, message, "" if code.isdigit() else code, redact)


def _advice(host: str, status: int) -> str:
    if status in (401, 403):
        variable = KEYS.get(host.partition(":")[0])
        return f"; check the key: api_key=…{f' or the variable {variable}' if variable else ''}"
    return "; check the model's name and base_url" if status == 404 else ""


def _explain(text: str) -> tuple[str, str]:
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text, ""
    if isinstance(data, list) and data:
        data = cast("list[Any]", data)[0]
    if isinstance(data, dict) and (inner := cast("dict[str, Any]", data).get("error")):
        return error_parts(inner)
    return error_parts(data)
