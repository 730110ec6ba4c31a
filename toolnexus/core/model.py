"""One model request and its reply, as values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from toolnexus.core.messages import Message
from toolnexus.core.tools import Tool
from toolnexus.core.usage import Usage
from toolnexus.core.values import value

StopReason = Literal["stop", "tool_calls", "length", "refusal", "paused", "cut"]
"""Why a model stopped. `refusal`: a content filter or the model declined. `paused`: the endpoint
wants the same request again with what it gave so far. `cut`: the stream broke after text had
already been handed on, and could not be restarted."""


class OnRetry(Protocol):
    """Is told that a request failed and goes out again after `delay` seconds."""

    def __call__(self, *, attempt: int, delay: float, error: BaseException) -> None: ...


class ModelSink(Protocol):
    """Takes what happens while a request runs. Only there when somebody reads."""

    def text(self, delta: str) -> None: ...
    def reasoning(self, delta: str) -> None: ...
    def retrying(self, *, attempt: int, delay: float, reason: str, restarted: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class OutputSpec:
    """The form that the final answer of a run must have. The same object in every turn."""

    name: str
    """1 to 64 characters of `[A-Za-z0-9_-]`."""
    schema: Mapping[str, Any]
    """A JSON Schema whose root is an object. What is no object itself is its member `value`."""
    description: str = ""

    @property
    def instructions(self) -> str:
        """The form in words, for the prompt of a model that can be told in no other way."""
        schema = json.dumps(self.schema, ensure_ascii=False)
        return (
            "Your final answer must be one JSON object that fits the JSON Schema below, with nothing before "
            f"or after it: no sentence, no code fence. Until then use your tools as you need them.\n{schema}"
        )


@value(kw_only=True)
class ModelRequest:
    """One request. A hook may replace it (`dataclasses.replace`)."""

    messages: Sequence[Message]
    """The transcript. Unchanged messages are the same objects from turn to turn."""
    system: str = ""
    tools: Sequence[Tool] = ()
    """The offered tools. The same object from turn to turn while nothing changes."""
    sink: ModelSink | None = None
    """None: nobody reads, so the endpoint need not stream."""
    memo: dict[Any, Any] = field(default_factory=dict[Any, Any], repr=False)
    """What a model keeps between the requests of one run (encoded messages); it dies with the run."""
    path: tuple[str, ...] = ()
    """The path of the asking run."""
    agent: str = ""
    turn: int = 1
    """The turn within the asking run, from 1."""
    output: OutputSpec | None = None
    """What the final answer must be, as JSON in the text of the reply. None: any text."""
    options: Mapping[str, Any] | None = None
    """Options of this request alone, by their names in chat completions; `extra_body` are members of the
    body as they are. What the model's own `params` say wins."""
    on_retry: OnRetry | None = None
    """Is told of retries, whether there is a `sink` or not."""

    def retry(self, *, attempt: int, delay: float, error: BaseException, restarted: bool = False) -> None:
        """Tell whoever follows that the request goes out again after `delay` seconds.

        `restarted`: text of the failed attempt was handed on and is void.
        """
        if self.sink is not None:
            self.sink.retrying(attempt=attempt, delay=delay, reason=str(error), restarted=restarted)
        if self.on_retry is not None:
            self.on_retry(attempt=attempt, delay=delay, error=error)


@value(kw_only=True)
class ModelResponse:
    """The reply to one request."""

    message: Message
    usage: Usage | None = None
    """Without `requests`; None when the endpoint did not say."""
    stop: StopReason = "stop"
    model: str | None = None
    """The model that answered, when it is another than the one asked (`fallback`)."""
    host: str | None = None
    """Its host, where it has one."""
    id: str = ""
    """What the endpoint calls the reply, where it does."""
    reason: str = ""
    """Why it stopped, in the endpoint's own word."""
