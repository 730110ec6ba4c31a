"""Everything that is served over HTTP, as one ASGI application."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from toolnexus.client import Client
from toolnexus.core.options import expect, install
from toolnexus.errors import ConfigError
from toolnexus.serving.load import Load
from toolnexus.serving.options import LOCAL, A2AOptions, Limits, McpOptions, read_hosts, read_options

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

    from toolnexus.serving.gate import Door

Options = bool | Mapping[str, Any] | None


class Part(Protocol):
    """One protocol of a server."""

    routes: list[BaseRoute]
    door: Door

    @property
    def tools(self) -> list[str]: ...
    def running(self) -> AbstractAsyncContextManager[None]: ...


def serve_app(
    client: Client,
    *,
    a2a: Options | A2AOptions = None,
    mcp: Options | McpOptions = None,
    url: str = "http://127.0.0.1",
    allowed_hosts: Iterable[str] = (),
    max_concurrent: int = Limits.max_concurrent,
    max_body: int = Limits.max_body,
    deadline: float = Limits.deadline,
) -> App:
    """The client as an ASGI application, for a server of your own; `serve` brings one along.

    `a2a` and `mcp` are as for `serve`. `url` is where callers reach it: the card says so. Requests are
    taken for this machine's own names and for `allowed_hosts`, `["*"]` for any. Its lifespan must run:
    it opens the client, which stays yours to close. Raises `ConfigError` for wrong options, and when
    the extra `serve` is not installed.
    """
    limits = Limits(max_concurrent=max_concurrent, max_body=max_body, deadline=deadline)
    agent, tools = read_options("a2a", A2AOptions, a2a), read_options("mcp", McpOptions, mcp)
    return App(client, agent, tools, limits, read_hosts(allowed_hosts), url)


class App:
    """An ASGI application. `serve_app` makes it."""

    def __init__(
        self,
        client: Client,
        a2a: A2AOptions | None,
        mcp: McpOptions | None,
        limits: Limits,
        hosts: Iterable[str],
        url: str,
    ) -> None:
        expect("client", client, Client, "give a toolnexus.Client")
        if a2a is None and mcp is None:
            raise ConfigError("nothing to serve: give a2a={…} for an A2A agent, mcp={…} for MCP, or both")
        self._client = client
        load = Load(limits.max_concurrent)
        try:
            from starlette.applications import Starlette

            from toolnexus.serving.gate import Gate

            self._parts = _parts(client, a2a, mcp, load, limits, url)
        except ImportError as missing:
            raise ConfigError(
                f"serving needs {missing.name!r}, which is not installed: {install('serve')}"
            ) from missing
        for options in (a2a, mcp):
            if options is not None and options.token is not None:
                client._redact.add(options.token)
        routes = [route for part in self._parts for route in part.routes]
        doors = [part.door for part in self._parts]
        inner: ASGIApp = Starlette(routes=routes, lifespan=lambda _: self.running())
        self._gate = Gate(inner, doors, load, limits, [*LOCAL, *hosts])

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that are offered over MCP now."""
        return tuple([name for part in self._parts for name in part.tools])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._gate(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve as long as the block lasts. Behind it every run is stopped and stored."""
        await self._client._life.open()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._gate.drained)
            # MCP last: its SDK has a task group around the rest, which wraps what starting that raises
            for part in reversed(self._parts):
                await stack.enter_async_context(part.running())
            stack.callback(self._gate.close)
            yield


def _parts(
    client: Client, a2a: A2AOptions | None, mcp: McpOptions | None, load: Load, limits: Limits, url: str
) -> list[Part]:
    """The protocols, the one with the narrower path first."""
    parts: list[Part] = []
    if mcp is not None:
        from toolnexus.serving.mcp.http import McpHttp

        parts.append(McpHttp(client, mcp, load, limits))
    if a2a is not None:
        from toolnexus.serving.a2a.http import A2AHttp

        parts.append(A2AHttp(client, a2a, load, limits, url))
    return parts
