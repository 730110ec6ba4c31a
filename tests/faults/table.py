"""The table: what an endpoint may do wrong, and what a run then gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from tests.faults.server import LAST_CHUNK, Answer, Asked, Make, events_of, good, http, reply_of
from toolnexus.testing.turns import Turn

SAID = "half of what"
FINE = "fine from"
TRIES = 3
"""Requests of one turn: two more after the first, as a model makes them unless told otherwise."""
LONG = 3600.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ends whose endpoint does this every time."""

    status: str
    """`done`, `incomplete` or `error`."""
    error: str | None = None
    """The class of the error."""
    http: int | None = None
    says: str = ""
    """A part of the text."""
    limit: str | None = None
    requests: int = 1
    retryable: bool = False
    wait: float | None = None
    """The hint how long to wait, about."""

    @property
    def words(self) -> str:
        again = f", after {self.requests} requests" if self.requests > 1 else ""
        if self.status == "error":
            status = f" ({self.http})" if self.http else ""
            hint = " with `retry_after`" if self.wait is not None else ""
            return f"`{self.error}`{status}{hint}{again}"
        if self.status == "incomplete":
            return f"`incomplete`, limit `{self.limit}`{again}"
        return f"`done`{again}" + (f": {self.says}" if self.says else "")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One row."""

    name: str
    what: str
    """In words, for the page."""
    answer: Make
    whole: Outcome
    streamed: Outcome | None = None
    """None: the same."""
    only_streams: bool = False
    """A whole reply cannot do this."""
    wire: str = "http"
    """`refused`: nobody listens. `deadline`: the run has one. `silence`: the wire waits only so long."""

    def outcome(self, streamed: bool) -> Outcome:
        return (self.streamed or self.whole) if streamed else self.whole


def error(status: int, message: str = "no", code: str = "", **headers: str) -> Make:
    """An error as both styles write it. It says what it was sent, keys and all."""

    def make(asked: Asked) -> Answer:
        body = {"error": {"message": f"{message} {asked.head}", "type": code or "error", "code": code}}
        named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        return Answer(http(json.dumps(body), status=status, headers=named))

    return make


def raw(body: str | Callable[[Asked], str], *, kind: str | None = None, status: int = 200) -> Make:
    """The same body whether it is streamed or not, under the type that was asked for."""

    def make(asked: Asked) -> Answer:
        text = body if isinstance(body, str) else body(asked)
        asked_for = "text/event-stream" if asked.streamed else "application/json"
        return Answer(http(text, kind=kind or asked_for, status=status))

    return make


def as_event(openai: Any, anthropic: Any) -> Make:
    """One JSON value: a whole reply, or the only event of a stream."""

    def text(asked: Asked) -> str:
        value = json.dumps(anthropic if asked.anthropic else openai)
        return f"data: {value}\n\ndata: [DONE]\n\n" if asked.streamed else value

    return raw(text)


def broken(*, end: str, text: str | None = None, clean: bool = False) -> Make:
    """A reply that breaks off in a call of a tool, `text` in front of it.

    `clean`: the body ends as HTTP wants it, only the style's own end is missing.
    """

    def make(asked: Asked) -> Answer:
        turn = Turn(text=text, calls=[{"name": "probe", "args": {"q": "a long one"}, "id": "c"}], chunk=100)
        if not asked.streamed:
            whole = json.dumps(reply_of(turn, asked)).encode()
            return Answer(http(whole[: len(whole) // 2], length=len(whole)), end)  # type: ignore[arg-type]
        events = events_of(turn, asked)
        at = max(i for i, event in enumerate(events) if "long one" in event)
        data = http("".join(events[:at]), kind="text/event-stream", chunked=True)
        return Answer(data + (LAST_CHUNK if clean else b""), end)  # type: ignore[arg-type]

    return make


def endless(asked: Asked) -> Answer:
    """All of a text, and an orderly end of the body, but no word that the reply is complete."""
    if not asked.streamed:
        value = reply_of(Turn(text=SAID), asked)
        for reply in (value, *value.get("choices", ())):
            reply.pop("finish_reason" if "finish_reason" in reply else "stop_reason", None)
        return Answer(http(json.dumps(value)))
    kept = [e for e in events_of(Turn(text=SAID), asked) if not any(word in e for word in _ENDS)]
    return Answer(http("".join(kept), kind="text/event-stream", chunked=True) + LAST_CHUNK)


_ENDS = ('"finish_reason": "stop"', "[DONE]", "message_delta", "message_stop")


def silent(asked: Asked) -> Answer:
    return Answer(b"", "hang")


def silent_after_text(asked: Asked) -> Answer:
    if not asked.streamed:
        return silent(asked)
    events = [e for e in events_of(Turn(text=SAID, chunk=100), asked) if not any(w in e for w in _ENDS)]
    return Answer(http("".join(events), kind="text/event-stream", chunked=True), "hang")


def without_usage(asked: Asked) -> Answer:
    return good(Turn(text=f"{FINE} {asked.model}", usage=None))(asked)


def after_text(asked: Asked, event: str) -> Answer:
    """Text, then `event`."""
    events = [e for e in events_of(Turn(text=SAID, chunk=100), asked) if not any(w in e for w in _ENDS)]
    return Answer(http("".join([*events, event]), kind="text/event-stream", chunked=True) + LAST_CHUNK)


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def overloaded(asked: Asked) -> Answer:
    text = json.dumps(OVERLOADED)
    return raw(f"data: {text}\n\n" if asked.streamed else text)(asked)


def in_one_hour() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=LONG), usegmt=True)


def html(asked: Asked) -> Answer:
    return Answer(http(f"<html><body>Sign in {asked.head}</body></html>", kind="text/html; charset=utf-8"))


def status(
    code: int, says: str = "", requests: int = 1, retryable: bool = False, wait: float | None = None
) -> Outcome:
    return Outcome(
        status="error",
        error="ModelHTTPError",
        http=code,
        says=says,
        requests=requests,
        retryable=retryable or requests > 1,
        wait=wait,
    )


def lost(says: str = "") -> Outcome:
    return Outcome(status="error", error="ModelConnectionError", says=says, requests=TRIES, retryable=True)


def odd(says: str = "") -> Outcome:
    return Outcome(status="error", error="ModelResponseError", says=says)


CUT = Outcome(status="incomplete", limit="connection", requests=TRIES)
LATE = Outcome(status="incomplete", limit="seconds")
DONE = Outcome(status="done")
ENDED = "ended before the reply was complete"

FAULTS = [
    Fault(name="400", what="400", answer=error(400), whole=status(400)),
    Fault(name="401", what="401", answer=error(401), whole=status(401, "check the key")),
    Fault(name="403", what="403", answer=error(403), whole=status(403, "check the key")),
    Fault(
        name="404", what="404", answer=error(404), whole=status(404, "check the model's name and base_url")
    ),
    Fault(name="408", what="408", answer=error(408), whole=status(408, requests=TRIES)),
    Fault(name="409", what="409", answer=error(409), whole=status(409, requests=TRIES)),
    Fault(name="429", what="429 without `Retry-After`", answer=error(429), whole=status(429, requests=TRIES)),
    Fault(
        name="429-seconds",
        what="429, `Retry-After` in seconds",
        answer=error(429, retry_after="0.01"),
        whole=status(429, "it asks to wait 0.01 s", requests=TRIES, wait=0.01),
    ),
    Fault(
        name="429-date",
        what="429, `Retry-After` as a date that has come",
        answer=error(429, retry_after="Mon, 06 Jan 2025 10:00:00 GMT"),
        whole=status(429, "it asks to wait 0 s", requests=TRIES, wait=0.0),
    ),
    Fault(
        name="429-long",
        what="429, `Retry-After` longer than the cap (60 s)",
        answer=error(429, retry_after=f"{LONG:g}"),
        whole=status(429, "it asks to wait 3600 s", retryable=True, wait=LONG),
    ),
    Fault(
        name="429-late-date",
        what="429, `Retry-After` as a date beyond the cap",
        answer=lambda asked: error(429, retry_after=in_one_hour())(asked),
        whole=status(429, "it asks to wait", retryable=True, wait=LONG),
    ),
    Fault(
        name="429-quota",
        what="429, the quota is used up",
        answer=error(429, "You exceeded your current quota", "insufficient_quota"),
        whole=status(429, "insufficient_quota"),
    ),
    *[
        Fault(name=str(code), what=str(code), answer=error(code), whole=status(code, requests=TRIES))
        for code in (500, 503, 529)
    ],
    Fault(
        name="502",
        what="502 with the HTML page of a proxy",
        answer=raw(lambda asked: f"<html>Bad gateway {asked.head}</html>", kind="text/html", status=502),
        whole=status(502, "Bad gateway", requests=TRIES),
    ),
    Fault(
        name="overloaded-as-data",
        what="an error as data: 200, then `overloaded_error`",
        answer=overloaded,
        whole=status(529, "Overloaded", requests=TRIES),
    ),
    Fault(
        name="redirect",
        what="a redirect",
        answer=lambda asked: Answer(http("moved", status=307, headers=(("Location", "/elsewhere"),))),
        whole=status(307, "redirects are not followed"),
    ),
    Fault(name="refused", what="nobody listens", answer=good(), whole=lost("cannot connect"), wire="refused"),
    Fault(
        name="reset-first",
        what="the connection is reset before the first byte",
        answer=lambda asked: Answer(b"", "reset"),
        whole=lost(),
    ),
    Fault(
        name="closed-first",
        what="the connection is closed before the first byte",
        answer=lambda asked: Answer(b"", "close"),
        whole=lost(),
    ),
    Fault(
        name="reset-headers",
        what="the connection is reset in the headers",
        answer=lambda asked: Answer(http("{}")[:30], "reset"),
        whole=lost(),
    ),
    Fault(
        name="reset-bytes",
        what="the connection is reset after some bytes, no text among them",
        answer=broken(end="reset"),
        whole=lost(),
    ),
    Fault(
        name="reset-text",
        what="the connection is reset after text was streamed",
        answer=broken(end="reset", text=SAID),
        whole=lost(),
        streamed=CUT,
    ),
    Fault(
        name="truncated",
        what="the body is shorter than it should be",
        answer=broken(end="close"),
        whole=lost(),
    ),
    Fault(
        name="truncated-text",
        what="the body is shorter than it should be, with text",
        answer=broken(end="close", text=SAID),
        whole=lost(),
        streamed=CUT,
    ),
    Fault(
        name="no-end-call",
        only_streams=True,
        what="the stream ends in order in the middle of a call",
        answer=broken(end="close", clean=True),
        whole=lost(ENDED),
    ),
    Fault(
        name="no-end",
        what="the stream ends in order without its terminal event (a whole reply is complete)",
        answer=endless,
        whole=DONE,
        streamed=CUT,
    ),
    Fault(name="html", what="200 with an HTML page", answer=html, whole=odd("no JSON: '<html><body>Sign in")),
    Fault(
        name="empty-body",
        what="200 with an empty body",
        answer=raw(""),
        whole=odd("no JSON: ''"),
        streamed=lost(ENDED),
    ),
    Fault(
        name="empty-choices",
        what="`choices: []`, Anthropic: no `content` key",
        answer=as_event({"choices": []}, {"type": "message"}),
        whole=odd("without a message"),
        streamed=lost(ENDED),
    ),
    Fault(
        name="null-choices",
        what="`choices: null`, `content: null`",
        answer=as_event({"choices": None}, {"type": "message", "content": None}),
        whole=odd("without a message"),
        streamed=lost(ENDED),
    ),
    Fault(
        name="other-shape",
        what="JSON of another shape",
        answer=as_event({"choices": [7]}, {"type": "message", "content": [7]}),
        whole=odd("another shape"),
    ),
    Fault(
        name="no-object",
        what="JSON that is no object",
        answer=as_event([], 7),
        whole=odd("not an object"),
        streamed=lost(ENDED),
    ),
    Fault(
        name="garbage",
        what="malformed JSON",
        answer=raw(lambda asked: 'data: {"choices": [\n\n' if asked.streamed else '{"choices": ['),
        whole=odd("no JSON"),
    ),
    Fault(
        name="garbage-after-text",
        only_streams=True,
        what="malformed JSON, text before",
        answer=lambda asked: after_text(asked, 'data: {"choices": [\n\n'),
        whole=odd("no JSON"),
    ),
    Fault(
        name="overloaded-after-text",
        only_streams=True,
        what="`overloaded_error` as an event, text before",
        answer=lambda asked: after_text(asked, f"data: {json.dumps(OVERLOADED)}\n\n"),
        whole=CUT,
    ),
    Fault(
        name="wrong-type",
        what="a good reply under `text/plain`",
        answer=good(kind="text/plain"),
        whole=DONE,
    ),
    Fault(
        name="unstreamed",
        what="a whole JSON reply to a request for a stream, under `text/plain`",
        answer=lambda asked: Answer(
            http(json.dumps(reply_of(Turn(text=f"{FINE} {asked.model}"), asked)), kind="text/plain")
        ),
        whole=DONE,
    ),
    Fault(
        name="no-usage",
        what="no usage is reported",
        answer=without_usage,
        whole=Outcome(status="done", says="usage is estimated"),
    ),
    Fault(
        name="silence",
        what="silence until the run's deadline",
        answer=silent,
        whole=LATE,
        wire="deadline",
    ),
    Fault(
        name="silence-after-text",
        what="silence until the run's deadline, text before",
        answer=silent_after_text,
        whole=LATE,
        wire="deadline",
    ),
    Fault(
        name="silence-limit",
        what="silence longer than the wire waits (120 s unless set)",
        answer=silent,
        whole=lost("not a byte for"),
        wire="silence",
    ),
    Fault(
        name="silence-limit-after-text",
        what="silence longer than the wire waits, text before",
        answer=silent_after_text,
        whole=lost("not a byte for"),
        streamed=CUT,
        wire="silence",
    ),
]
