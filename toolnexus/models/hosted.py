"""What the models over HTTP share: wire, retries, body pieces, streams.

What it is: one request on its way, whatever its style. What it is not: a style.
Above: `openai`, `anthropic`. Below: `wire`, `retry`, `encode`.
"""

from __future__ import annotations

import asyncio
import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from toolnexus.core.model import ModelRequest, ModelResponse, ModelSink, OutputSpec
from toolnexus.errors import (
    ConfigError,
    ModelConnectionError,
    ModelError,
    ModelResponseError,
    ToolnexusError,
)
from toolnexus.models.encode import dumps, remembered
from toolnexus.models.http import HttpPool, HttpWire, check_headers, header_secrets
from toolnexus.models.keys import Provider, endpoint
from toolnexus.models.retry import Broken, Retries, RetryPolicy, with_retries
from toolnexus.models.structured import Way, Ways
from toolnexus.models.wire import Wire
from toolnexus.runtime.redact import Redactor

if TYPE_CHECKING:
    from types import CoroutineType

    from toolnexus.core.tools import Tool
    from toolnexus.core.usage import Usage
else:  # before Python 3.13 it takes no types
    from collections.abc import Coroutine as CoroutineType

BodyTransform = Callable[[dict[str, Any]], dict[str, Any]]
M = TypeVar("M", bound="HostedModel")
T = TypeVar("T")

_OURS = ("messages", "tools", "stream")
_ODD_SHAPE = (LookupError, TypeError, AttributeError, ValueError)
_MOST_OFFERS = 64
_ONLY_WITH_TOOLS = ("tool_choice", "parallel_tool_calls")


class Reading(Protocol):
    """A reply that is being read, event by event."""

    ended: bool
    """Whether the endpoint said that the reply is complete."""
    said: bool
    """Whether text or reasoning was handed on."""

    def feed(self, event: dict[str, Any]) -> None:
        """Take one event. Raises `ModelError` for an error that came as an event."""
        ...

    def response(self) -> ModelResponse:
        """The complete reply. Raises `ModelResponseError` when it is no valid one."""
        ...

    def partial(self) -> ModelResponse | None:
        """The text so far with stop `cut`, without any call; None when there is no text."""
        ...

    def used(self) -> Usage | None:
        """What the request used, as far as the endpoint has told it."""
        ...


class HostedModel(ABC):
    """One model at one endpoint. Safe to use from many runs at once."""

    provider: ClassVar[Provider]

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        retries: int | RetryPolicy = 2,
        params: Mapping[str, Any] | None = None,
        body_transform: BodyTransform | None = None,
        wire: object = None,
        structured: Way | None = None,
    ) -> None:
        if not name:
            raise ConfigError("a model needs a name, such as 'gpt-5-mini'")
        ours = [key for key in _OURS if key in (params or {})]
        if ours:
            raise ConfigError(f"params cannot set {ours}: they are made from the request; use body_transform")
        self._name = name
        self._wire = make_wire(self.provider, wire, base_url, api_key, headers)
        self._policy = RetryPolicy(retries) if isinstance(retries, int) else retries
        self._params = dict(params or {})
        self._transform = body_transform
        self._redact = Redactor(self._wire.secrets)
        self._heads: dict[tuple[bool, bool], bytes] = {}
        self._origin = f"{self.provider}:{self._wire.host}"
        self._of_tools = f"{self._origin} tools"
        self._offers: dict[tuple[Tool, ...], bytes] = {}
        self._ways = Ways(structured)

    @property
    def name(self) -> str:
        return self._name

    @property
    def host(self) -> str:
        """The host that requests go to."""
        return self._wire.host

    @property
    def origin(self) -> str:
        """Style and host: what opaque parts of its messages are tagged with."""
        return self._origin

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that no text may show: the key, the header values that a user gave."""
        return self._wire.secrets

    def named(self: M, name: str) -> M:
        """The model `name` at the same endpoint, over the same connections, with the same options."""
        if not name:
            raise ConfigError("the model name is missing")
        twin = copy.copy(self)
        twin._name = name
        twin._heads = {}
        twin._ways = self._ways.fresh()
        return twin

    def generate(self, request: ModelRequest) -> CoroutineType[Any, Any, ModelResponse]:
        """Answer one request, streamed when the request has a sink.

        Raises `ModelError`; cancelling closes the request. What fails for a while is tried again
        (see `RetryPolicy`). A stream that broke for good after its text was handed on gives the text
        so far with stop `cut`. Calls of a broken reply are never given back. The answer to a request
        with an `output` is in the text, whichever way the endpoint is asked for it.
        """
        if request.output is None:
            return self._send(request)
        return self._ways.answer(request, self._has_native, self._send)

    def _send(self, request: ModelRequest, way: Way | None = None) -> CoroutineType[Any, Any, ModelResponse]:
        return self._answered(request, way)

    async def _answered(self, request: ModelRequest, way: Way | None) -> ModelResponse:
        retries: Retries | None = None
        while True:
            try:
                if request.sink is not None:
                    return await self._streamed(request, request.sink, way)
                reply = await self._wire.post(self._path, self._body(request, way))
                return self._read(partial(_response, self._reading(None), reply))
            except (Broken, ModelError) as error:
                failed = error
            retries = retries or Retries(self._policy, request, self._label)
            if (rest := await retries.after(failed)) is not None:
                return rest

    def _retried(self, attempt: Callable[[], Awaitable[T]]) -> CoroutineType[Any, Any, T]:
        """What `attempt` gives."""
        return with_retries(self._policy, attempt, None, self._label)

    @property
    def _label(self) -> str:
        return f"model {self._name!r}: "

    def _read(self, read: Callable[[], T]) -> T:
        """What `read` makes of a reply. Raises `ModelResponseError` for one of another shape."""
        try:
            return read()
        except _ODD_SHAPE as error:
            raise self._odd(error) from self._redact.cause(error)

    def check(self, request: Any) -> None:
        """Raises `ConfigError` for what the endpoint cannot be asked; sends nothing."""
        self._body(request, None)

    async def aclose(self) -> None:
        """Close idle connections; the next request opens them again."""
        await self._wire.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, host={self.host!r})"

    @property
    @abstractmethod
    def _path(self) -> str: ...

    @abstractmethod
    def _defaults(self, streamed: bool) -> dict[str, Any]:
        """Body fields that `params` may replace."""

    @abstractmethod
    def _pieces(self, request: ModelRequest) -> tuple[bytes, list[bytes]]:
        """The members before `messages`, as JSON without braces, and the encoded messages."""

    @abstractmethod
    def _has_native(self, output: OutputSpec) -> bool:
        """Whether the style can hold a model to `output`."""

    @abstractmethod
    def _asking(self, output: OutputSpec, way: Way) -> Mapping[str, Any]:
        """The body fields that ask for `output` in this way; `params` win over them."""

    @abstractmethod
    def _translated(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The body fields of options that go by their names in chat completions.

        Raises `ConfigError` for one that the style does not have.
        """

    def _joined(self, options: Mapping[str, Any], asking: Mapping[str, Any]) -> Mapping[str, Any]:
        """The body fields of options together with those that ask for an output."""
        return {**options, **asking}

    @abstractmethod
    def _reading(self, sink: ModelSink | None) -> Reading: ...

    def _body(self, request: ModelRequest, way: Way | None) -> bytes:
        """The request as bytes, put together from pieces that were encoded once."""
        streamed = request.sink is not None
        members, messages = self._pieces(request)
        if request.options:
            named = dict(request.options)
            raw: Mapping[str, Any] = named.pop("extra_body", {})
            if ours := [key for key in ("model", *_OURS) if key in raw]:
                raise ConfigError(f"extra_body cannot set {ours}: they are made from the request")
            asking: Mapping[str, Any] = (
                {} if way is None or request.output is None else self._asking(request.output, way)
            )
            fields = {**self._joined(self._translated(named), asking), **raw}
            head = dumps(self._fields(streamed, bool(request.tools), fields))[:-1]
        elif way is None or request.output is None:
            head = self._head(streamed, bool(request.tools))
        else:
            head = self._asking_head(request, request.output, way)
        between = b"," if members else b""
        start = b"".join((head, between, members, b',"messages":['))
        body = _bracketed(start, messages, b"]}")
        if self._transform is None:
            return body
        changed: Any = self._transform(json.loads(body))
        if not isinstance(changed, dict):
            raise ConfigError(f"body_transform must return the body, a dict, not {type(changed).__name__}")
        return dumps(changed)

    def _offer(self, request: ModelRequest, encode: Callable[[Sequence[Tool]], bytes]) -> bytes:
        """The encoded tools: made once for all runs that offer the same."""

        def known() -> bytes:
            tools = tuple(request.tools)
            data = self._offers.get(tools)
            if data is None:
                if len(self._offers) >= _MOST_OFFERS:
                    self._offers.clear()
                data = self._offers[tools] = encode(tools)
            return data

        return remembered(request.memo, self._of_tools, request.tools, known)

    def _head(self, streamed: bool, tools: bool) -> bytes:
        head = self._heads.get((streamed, tools))
        if head is None:
            head = self._heads[streamed, tools] = dumps(self._fields(streamed, tools, {}))[:-1]
        return head

    def _asking_head(self, request: ModelRequest, output: OutputSpec, way: Way) -> bytes:
        streamed, tools = request.sink is not None, bool(request.tools)
        key = (self._origin, self._name, way, streamed, tools)

        def encode() -> bytes:
            return dumps(self._fields(streamed, tools, self._asking(output, way)))[:-1]

        return remembered(request.memo, key, output, encode)

    def _fields(self, streamed: bool, tools: bool, asking: Mapping[str, Any]) -> dict[str, Any]:
        """The members of a body that are the same in every turn."""
        fields = {"model": self._name, **self._defaults(streamed), **asking, **self._params}
        if streamed:
            fields["stream"] = True
        if not tools:
            for key in _ONLY_WITH_TOOLS:
                fields.pop(key, None)
        return fields

    async def _streamed(self, request: ModelRequest, sink: ModelSink, way: Way | None) -> ModelResponse:
        reading = self._reading(sink)
        try:
            try:
                body = self._body(request, way)
                async with aclosing(self._wire.stream(self._path, body)) as events:
                    del body
                    async for event in events:
                        reading.feed(event)
                        if reading.said:
                            break
                    await asyncio.sleep(0)  # the reader need not wait for the rest of what has come
                    async for event in events:
                        reading.feed(event)
            except ToolnexusError:
                raise
            except _ODD_SHAPE as error:
                raise self._odd(error) from self._redact.cause(error)
            if not reading.ended:
                raise ModelConnectionError(f"{self.host}: the stream ended before the reply was complete")
        except ModelError as error:
            if not reading.ended:  # a connection that breaks behind the end took nothing
                error.usage = _used(reading)
                raise Broken(error, _rest(reading), reading.said) from error
        return self._read(reading.response)

    def _odd(self, error: Exception) -> ModelResponseError:
        """Replies of any shape may come: what reading one trips over is the endpoint's error."""
        what = self._redact(f"{type(error).__name__} {error}")[:200]
        return ModelResponseError(f"{self.host} sent a reply of another shape: {what}")


def _response(reading: Reading, reply: dict[str, Any]) -> ModelResponse:
    reading.feed(reply)
    return reading.response()


def _rest(reading: Reading) -> ModelResponse | None:
    """What a broken stream had said; nothing when that is of another shape too."""
    try:
        return reading.partial()
    except _ODD_SHAPE:
        return None


def _used(reading: Reading) -> Usage | None:
    try:
        return reading.used()
    except _ODD_SHAPE:
        return None


def _bracketed(start: bytes, items: list[bytes], end: bytes) -> bytes:
    """`start`, the items with commas, `end`: a long transcript is copied once, not twice."""
    if len(items) < 2:
        return start + b"".join(items) + end
    return b",".join([start + items[0], *items[1:-1], items[-1] + end])


def make_wire(
    provider: Provider,
    wire: object,
    base_url: str | None,
    api_key: str | None,
    headers: Mapping[str, str] | None,
    pool: HttpPool | None = None,
) -> Wire:
    """The wire that a model option asks for. Raises `ConfigError`."""
    if wire is not None and wire != "sdk":
        for name, value in (("base_url", base_url), ("api_key", api_key), ("headers", headers)):
            if value is not None:
                raise ConfigError(f"{name} goes with the default wire; set it on the object given as wire=")
        if isinstance(wire, Wire):
            return wire
        from toolnexus.models.sdk import SdkWire

        return SdkWire(provider, wire)
    url, key = endpoint(provider, base_url, api_key)
    given = headers or {}
    check_headers(given)
    if wire == "sdk":
        from toolnexus.models.sdk import sdk_wire

        return sdk_wire(provider, url, key, given)
    standard = {"anthropic-version": "2023-06-01"} if provider == "anthropic" else {}
    if key is not None:
        standard |= {"x-api-key": key} if provider == "anthropic" else {"authorization": f"Bearer {key}"}
    merged = standard | {name.lower(): value for name, value in given.items()}
    secrets = ((key,) if key else ()) + header_secrets(given)
    return HttpWire(url, merged, secrets=secrets, pool=pool)
