"""A server of our own: one port, one task, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from toolnexus.client import Client
from toolnexus.core.options import count, expect
from toolnexus.errors import ConfigError
from toolnexus.runtime.concurrency import stop
from toolnexus.serving.app import App, Options
from toolnexus.serving.gate import PATIENCE
from toolnexus.serving.options import A2AOptions, Limits, McpOptions, read_hosts, read_options

MOST_CONNECTIONS = 2_000
"""Connections at once; more get 503."""

KEEP_ALIVE = 15
"""Seconds that an idle connection stays open. Clients keep theirs shorter, most of them five seconds: one
that is closed while a request is on its way fails it."""


class Server:
    """Something that is served."""

    def __init__(self, url: str, app: App) -> None:
        self.url = url
        """The address of the A2A agent, without a slash at its end; MCP is at `/mcp` below it."""
        self._app = app

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that are offered over MCP now."""
        return self._app.tools


@asynccontextmanager
async def serve(
    client: Client,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    a2a: Options | A2AOptions = None,
    mcp: Options | McpOptions = None,
    allowed_hosts: Iterable[str] = (),
    allow_anonymous: bool = False,
    max_concurrent: int = Limits.max_concurrent,
    max_body: int = Limits.max_body,
    deadline: float = Limits.deadline,
) -> AsyncGenerator[Server]:
    """Serve a client: `async with serve(client, a2a={…}, mcp={…}) as server: … server.url`.

    * `host`, `port`: where to listen; port 0 is any that is free. Beyond this machine only with a token
      for everything that is served, unless `allow_anonymous`.
    * `a2a`: the client as an A2A agent: `name`, `description`, `version`, `token`, `url`, `tasks` (where
      its tasks are kept); True for the defaults.
    * `mcp`: its tools as an MCP server: `name`, `instructions`, `tools` (names and globs, or `{name:
      bool}`), `agents` (names, each a tool), `token`; True for all tools.
    * `allowed_hosts`: more names that callers may use for it. `["*"]`: any.
    * `max_concurrent` runs and calls at once, `max_body` bytes of a request, `deadline` seconds of a run.

    The client is opened, and stays yours to close. When the block is left, runs are stopped and stored.
    Raises `ConfigError` for wrong options, when the address cannot be listened on, and when
    the extra `serve` is not installed.
    """
    expect("host", host, str, "give an address, such as '127.0.0.1'")
    count("port", port, 0)
    if port > 65535:
        raise ConfigError(f"port={port} must be 65535 or less, or 0 for any that is free")
    limits = Limits(max_concurrent=max_concurrent, max_body=max_body, deadline=deadline)
    agent, tools = read_options("a2a", A2AOptions, a2a), read_options("mcp", McpOptions, mcp)
    hosts = [*read_hosts(allowed_hosts)]
    if not _is_local(host):
        open_to_all = [o for o in (agent, tools) if o is not None and o.token is None]
        if open_to_all and not allow_anonymous:
            raise ConfigError(
                f"host={host!r} is reached from other machines: give a token in a2a and mcp, "
                "or allow_anonymous=True"
            )
        hosts.append("*" if not open_to_all and _is_any(host) else _written(host))
    listening = _listen(host, port)
    try:
        url = f"http://{_written(host)}:{listening.getsockname()[1]}"
        app = App(client, agent, tools, limits, hosts, url)
        started, ending = asyncio.Event(), asyncio.Event()
        patience = min(PATIENCE, limits.deadline)
        work = asyncio.create_task(_run(app, listening, patience, started, ending))
        begun = asyncio.create_task(started.wait())
        try:
            await asyncio.wait([work, begun], return_when=asyncio.FIRST_COMPLETED)
            if begun.done():
                yield Server(url, app)
        finally:
            ending.set()
            begun.cancel()
            await _ended(work)
    finally:
        listening.close()


async def _ended(work: asyncio.Task[None]) -> None:
    """Wait for the end of the server, and hurry it when somebody cancels that."""
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await stop([work])
        raise


async def _run(
    app: App, listening: socket.socket, patience: float, started: asyncio.Event, ending: asyncio.Event
) -> None:
    import uvicorn

    from toolnexus.serving.connection import punctual

    class Quiet(uvicorn.Server):
        """Signals belong to the program that serves."""

        def capture_signals(self) -> Any:
            return nullcontext()

    config = uvicorn.Config(
        app,
        http=punctual(patience),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=2,
    )
    server = Quiet(config)
    async with app.running():
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        started.set()
        try:
            done = asyncio.create_task(ending.wait())
            await asyncio.wait([serving, done], return_when=asyncio.FIRST_COMPLETED)
            done.cancel()
        finally:
            server.should_exit = True
    await serving


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, socket.SOCK_STREAM, protocol)
    except OSError as error:
        raise ConfigError(f"host={host!r}: it is no address of this machine: {error.strerror}") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise ConfigError(f"cannot listen on {host!r}, port {port}: {error.strerror}") from None
    return listening


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return not host


def _written(host: str) -> str:
    """A host as it stands in an address."""
    return f"[{host}]" if ":" in host else host
