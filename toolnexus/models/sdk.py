"""The wire over an official SDK client: every cloud, login and proxy that the SDKs know.

Above: `hosted`. Below: an `openai` or `anthropic` client; only this module loads the SDKs.
Bodies stay our bytes, because the typed methods of the SDKs walk a whole transcript every turn.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import Any, cast

from toolnexus.errors import ConfigError, ModelConnectionError, ModelError, ModelResponseError
from toolnexus.models.http import header_secrets
from toolnexus.models.keys import Provider
from toolnexus.models.sse import DONE, EventSplitter, parse_event
from toolnexus.models.wire import CONNECT, SILENCE, event_error, http_error, parse_reply
from toolnexus.runtime.redact import Redactor

_PLAIN = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}
_TRANSPORTS = frozenset(("httpx", "httpx2"))
_SECRETS = ("api_key", "auth_token", "access_token", "aws_secret_key", "aws_session_token")


class SdkWire:
    """Requests through an async client of the SDK that belongs to `provider`.

    `client` keeps its own address, login, timeouts and proxies; its retries are switched off, because
    the model retries. It is never closed here: it belongs to who made it. A function in its place
    makes one when it is needed, and `aclose` closes that one. `headers` go with every request;
    `secrets` are masked in errors beside those of the client.
    """

    def __init__(
        self,
        provider: Provider,
        client: Any,
        *,
        headers: Mapping[str, Any] | None = None,
        secrets: tuple[str, ...] = (),
    ) -> None:
        self._provider = provider
        self._sdk: Any = importlib.import_module(provider)
        self._make: Callable[[], Any] | None = client if inspect.isfunction(client) else None
        self._client: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._options = {
            "headers": {"content-type": "application/json", **(headers or {})},
            "follow_redirects": False,
        }
        self._extra_secrets = secrets
        self._adopt(client if self._make is None else self._make())

    @property
    def host(self) -> str:
        return self._host

    @property
    def secrets(self) -> tuple[str, ...]:
        return self._secrets

    async def post(self, path: str, body: bytes) -> dict[str, Any]:
        with self._mapped():
            response = await self._send(path, body, streamed=False)
        return parse_reply(self._host, response.content, self._redact)

    async def stream(self, path: str, body: bytes) -> AsyncGenerator[dict[str, Any]]:
        with self._mapped():
            response = await self._send(path, body, streamed=True)
            try:
                kind = response.headers.get("content-type", "")
                if "event-stream" in kind:
                    async with aclosing(self._events(response)) as events:
                        async for event in events:
                            yield event
                elif "json" in kind or "html" in kind:  # a page is no reply, and must be shown
                    yield parse_reply(self._host, await response.aread(), self._redact)
                else:  # a framing of its own, which the SDK knows (Amazon's event stream)
                    stream = self._sdk.AsyncStream
                    async with stream(cast_to=object, response=response, client=self._client) as events:
                        async for event in events:
                            yield event
            finally:
                await response.aclose()

    async def aclose(self) -> None:
        if self._make is not None and self._client is not None:
            client, self._client = self._client, None
            await client.close()

    def _adopt(self, client: Any) -> None:
        ours = any(cls.__module__.partition(".")[0] == self._provider for cls in type(client).__mro__)
        if not ours or not inspect.iscoroutinefunction(getattr(client, "post", None)):
            raise ConfigError(
                f"wire={type(client).__name__} must be an async client of the {self._provider} SDK "
                f"(such as {_PLAIN[self._provider]}), 'sdk', or an object with post, stream and aclose"
            )
        self._client = client.with_options(max_retries=0)
        self._addresses: dict[str, str] = {}  # those of another client may be others
        # The clouds' clients read the model out of the body to build their own URL: they need the object.
        self._takes_bytes = type(client) is getattr(self._sdk, _PLAIN[self._provider])
        url = client.base_url
        self._host = url.host if url.port is None else f"{url.host}:{url.port}"
        found = [getattr(client, name, None) for name in _SECRETS]
        headers: Mapping[str, str] = getattr(client, "auth_headers", None) or {}
        self._secrets = tuple(
            {s for s in (*found, *header_secrets(headers), *self._extra_secrets) if isinstance(s, str) and s}
        )
        self._redact = Redactor(self._secrets)

    async def _send(self, path: str, body: bytes, *, streamed: bool) -> Any:
        import httpx2

        loop = asyncio.get_running_loop()
        if self._make is not None and (self._client is None or self._loop not in (None, loop)):
            self._adopt(self._make())  # its connections belong to one loop
        self._loop = loop
        client: Any = self._client
        what: dict[str, Any] = {"content": body} if self._takes_bytes else {"body": json.loads(body)}
        if streamed:
            what |= {"stream": True, "stream_cls": self._sdk.AsyncStream[object]}
        return await client.post(self._address(path), cast_to=httpx2.Response, options=self._options, **what)

    def _address(self, path: str) -> str:
        """The path; for a plain client the whole address, which the SDK would put together every time."""
        if not self._takes_bytes:
            return path
        if (whole := self._addresses.get(path)) is None:
            base = self._client.base_url
            joined = base.copy_with(raw_path=base.raw_path + path.lstrip("/").encode())
            whole = self._addresses[path] = str(joined)
        return whole

    async def _events(self, response: Any) -> AsyncGenerator[dict[str, Any]]:
        splitter = EventSplitter()
        async for chunk in response.aiter_bytes():
            for data in splitter.feed(chunk):
                if data == DONE:
                    return
                if (event := parse_event(data, self._host)) is not None:
                    yield event
        for data in splitter.end():
            with suppress(ModelResponseError):  # a torn event: the model sees that no end came
                if data != DONE and (event := parse_event(data, self._host)) is not None:
                    yield event

    @contextmanager
    def _mapped(self) -> Generator[None]:
        try:
            yield
        except ModelError:
            raise
        except self._sdk.APIStatusError as error:
            raise self._status_error(error) from None  # its text is the endpoint's, secrets and all
        except self._sdk.APIConnectionError as error:
            raise ModelConnectionError(self._text(error.__cause__ or error)) from self._redact.cause(error)
        except Exception as error:  # of the transport below, or of a login that a client brings along
            lost = type(error).__module__.partition(".")[0] in _TRANSPORTS
            cls = ModelConnectionError if lost else ModelError
            raise cls(self._text(error)) from self._redact.cause(error)

    def _status_error(self, error: Any) -> ModelError:
        response = error.response
        if response.status_code < 300:  # it came as an event inside a stream
            body: Any = error.body
            return event_error(
                self._host,
                cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else body,
                self._redact,
            )
        return http_error(self._host, response.status_code, response.headers, response.text, self._redact)

    def _text(self, error: BaseException) -> str:
        return f"{self._host}: {self._redact(str(error))[:500] or type(error).__name__}"


def sdk_wire(provider: Provider, base_url: str, api_key: str | None, headers: Mapping[str, str]) -> SdkWire:
    """A wire over a client that we make ourselves, with our own time limits."""
    import httpx2

    sdk: Any = importlib.import_module(provider)
    timeout = httpx2.Timeout(SILENCE, connect=CONNECT, pool=None)
    sent: dict[str, Any] = {}
    if api_key is None and not any(name.lower() == "authorization" for name in headers):
        sent["Authorization"] = sdk.Omit()

    def make() -> Any:
        return getattr(sdk, _PLAIN[provider])(
            base_url=base_url,
            api_key=api_key or "none",
            timeout=timeout,
            max_retries=0,
            default_headers=dict(headers),  # those of a single request are shown in the SDK's debug log
        )

    return SdkWire(provider, make, headers=sent, secrets=header_secrets(headers))
