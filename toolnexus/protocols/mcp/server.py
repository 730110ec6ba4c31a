"""One MCP server for as long as its client lives: connect, serve calls, reconnect, close.

Above: `tools/mcp.py`. Below: `session.py` (one connection), `process.py` (one process).
One task owns all of it, so `aclose` works from any task; a cancel of the owner is a close.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from toolnexus.core.tools import ToolResult
from toolnexus.protocols.mcp.call import Call
from toolnexus.protocols.mcp.endpoint import Endpoint, Era, ListedTool
from toolnexus.protocols.mcp.faults import Fault, Gone, SessionLost, last_words, obituary
from toolnexus.protocols.mcp.jobs import Jobs
from toolnexus.protocols.mcp.process import POSIX, ServerProcess, server_environment
from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.threads import run_in_thread

if TYPE_CHECKING:
    from toolnexus.protocols.mcp import session

logger = logging.getLogger("toolnexus.mcp")

Status = Literal["connected", "failed", "needs_auth"]

RESTARTS = 5
"""Attempts in a row to get a lost server back before it is given up."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_STABLE = 60.0
_DEBOUNCE = 0.05
_LISTING = 1.0
_FAILED_GRACE = 0.2
_UNLIKELY = 0.1


class McpServer:
    """The owner of one server. It starts to connect when it is made, and is closed once.

    `tools` is what the server listed last; `on_tools` is called when that has changed.
    """

    def __init__(self, endpoint: Endpoint, on_tools: Callable[[], None]) -> None:
        self.endpoint = endpoint
        self.tools: tuple[ListedTool, ...] = ()
        self.instructions: str | None = None
        self.status: Status = "failed"
        self.reason: str | None = "not connected yet"
        self.era: Era | None = None
        """The era that the server turned out to speak; the next connection begins with it."""
        self._on_tools = on_tools
        self._redact = Redactor(endpoint.secrets)
        self._loop = asyncio.get_running_loop()
        self._connection: session.Connection | None = None
        self._connections: set[session.Connection] = set()
        self._processes: set[ServerProcess] = set()
        self._jobs = Jobs(f"mcp server {endpoint.name}")
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()
        self._retry = asyncio.Event()
        self._changed = asyncio.Event()
        self._given_up = False
        self._proved = False
        self._stale = False
        self._refreshing = False
        self._listed = asyncio.Event()
        self._listed.set()
        self._owner = asyncio.create_task(self._own(), name=f"mcp server {endpoint.name}")

    async def opened(self) -> None:
        """Wait until it is connected and its tools are listed. Raises `Fault` when it cannot be."""
        while self._connection is None:
            if self._given_up:
                raise Fault(self.reason or "it was closed", status=self._fault_status)
            await self._changed.wait()

    async def call(self, call: Call) -> ToolResult:
        """Call a tool within the time of `call.clock`. Raises `Fault`.

        A lost server is waited for. A call that the server refused because it forgot our session
        is sent once more in a new one; nothing else is ever sent twice.
        """
        try:
            async with call.clock:
                try:
                    return await self._call(call)
                except SessionLost:
                    return await self._call(call)
        except TimeoutError:
            raise Fault(f"it did not answer within {in_words(call.clock.timeout)}") from None

    async def aclose(self) -> None:
        """End the connection and the process. From any task and loop, any number of times."""
        if self._owner.done():
            return
        if self._loop is asyncio.get_running_loop():
            self._stop.set()
            self._wake.set()
            await asyncio.wait({self._owner})
        elif self._loop.is_running():
            elsewhere = asyncio.run_coroutine_threadsafe(self.aclose(), self._loop)
            await asyncio.wrap_future(elsewhere)
        else:  # our loop is gone, and with it all that could close politely
            for process in list(self._processes):
                process.kill()

    # ---- the owner

    async def _own(self) -> None:
        # No `finally`: a coroutine that is thrown away with its loop must not await any more.
        try:
            await self._live()
        except asyncio.CancelledError:
            pass
        except Exception:
            trace = self._redact(traceback.format_exc())
            logger.error("the owner of MCP server %r failed\n%s", self.endpoint.name, trace)
        self._stop.set()
        self._given_up = True
        if self.status == "connected":
            self._say("failed", "closed")
        await self._end()

    async def _live(self) -> None:
        attempts = 0
        while not self._stop.is_set():
            began = self._loop.time()
            try:
                connection = await self._jobs.unless(self._stop, self._connect())
                if connection is not None:
                    await self._serve(connection)
            except Fault as fault:
                self._say(fault.status, fault.reason)
            else:  # one that served well is not held to its earlier troubles
                if self._proved or self._loop.time() - began > _STABLE:
                    attempts = 0
            attempts += 1
            if not await self._rest(attempts):
                return

    async def _connect(self) -> session.Connection:
        """A connection whose tools are listed. What it leaves behind when it fails is cleared away."""
        endpoint = self.endpoint
        process = self._spawn() if endpoint.url is None and POSIX else None
        connection: session.Connection | None = None
        try:
            sdk = await _load_sdk()
            async with asyncio.timeout(endpoint.timeout):
                connection = self._connection_of(sdk, process)
                await connection.ready()
                self._stale = False
                tools = await connection.tools()
        except TimeoutError:
            words = last_words(process) if process is not None else ""
            self._jobs.start(self._clear(connection, process))
            spent = in_words(endpoint.timeout)
            raise Fault(self._redact(f"it was not ready within {spent}{words}")) from None
        except BaseException:
            self._jobs.start(self._clear(connection, process))
            raise
        self.era, self.instructions = connection.era, self._redact.within(connection.instructions)
        self._publish(tools)
        return connection

    def _connection_of(self, sdk: Any, process: ServerProcess | None) -> session.Connection:
        connection = sdk.Connection(
            self.endpoint,
            process,
            first=self.era or ("handshake" if self.endpoint.url is None else "stateless"),
            redact=self._redact,
            on_change=self._on_change,
            on_end=self._wake.set,
        )
        self._connections.add(connection)
        return connection

    def _spawn(self) -> ServerProcess:
        endpoint = self.endpoint
        if endpoint.cwd is not None and not os.path.isdir(endpoint.cwd):
            raise Fault(self._redact(f"its cwd {endpoint.cwd!r} is not a folder"))
        try:
            process = ServerProcess(endpoint.command, server_environment(endpoint.env), endpoint.cwd)
        except (OSError, ValueError) as error:
            what = getattr(error, "filename", None) or endpoint.command[0]
            why = getattr(error, "strerror", None) or str(error)
            raise Fault(self._redact(f"cannot start {what!r}: {why}; check its command")) from None
        self._processes.add(process)
        return process

    async def _clear(self, connection: session.Connection | None, process: ServerProcess | None) -> None:
        """End what a failed attempt left. It had its time, so it gets little grace."""
        if connection is not None:
            await connection.close(_FAILED_GRACE)
            self._connections.discard(connection)
        if process is not None:
            await process.stop(_FAILED_GRACE)
            self._processes.discard(process)

    async def _serve(self, connection: session.Connection) -> None:
        """Keep the connection until it ends or we stop."""
        self._connection, self._proved = connection, False
        self._say("connected", None)
        if self._stale:
            self._on_change()
        while not (connection.ended or self._stop.is_set()):
            self._wake.clear()
            await self._wake.wait()
        if not self._stop.is_set():
            self._connection = None
            process = connection.process
            why = "the connection is lost" if process is None else self._redact(await obituary(process))
            self._say("failed", f"{why}; connecting again")
            logger.warning("MCP server %r: %s; connecting again", self.endpoint.name, why)
            self._jobs.start(self._retire(connection))

    async def _retire(self, connection: session.Connection) -> None:
        await connection.retire()
        self._connections.discard(connection)
        if connection.process is not None:
            self._processes.discard(connection.process)

    async def _rest(self, attempts: int) -> bool:
        """Wait before the next attempt. False: there is none."""
        if self.era is None or self._stop.is_set():  # it never worked, or we are done
            return False
        if attempts <= RESTARTS:
            pause = min(_FIRST_PAUSE * 2 ** (attempts - 1), _LONGEST_PAUSE)
            await self._jobs.unless(self._stop, asyncio.sleep(pause))
            return True
        logger.warning("MCP server %r is given up: %s", self.endpoint.name, self.reason)
        if self.endpoint.url is None:
            return False
        # What is behind a URL may come back by itself: the next call tries again.
        self._given_up = True
        self._notify()
        self._retry.clear()
        await self._jobs.unless(self._stop, self._retry.wait())
        self._given_up = False
        return True

    async def _end(self) -> None:
        """Close everything, however often we are cancelled meanwhile."""
        self._connection = None
        self._notify()
        for connection in self._connections:
            self._jobs.start(connection.close())
        await self._jobs.finish()
        for process in self._processes:
            process.kill()

    # ---- calls and changes

    async def _call(self, call: Call) -> ToolResult:
        connection = await self._connected()
        try:
            result = await connection.call(call)
        except SessionLost:
            connection.lose()
            raise
        except Gone as gone:
            raise Gone(f"{gone.reason}; it is being started again") from None
        except Fault as fault:
            if fault.status == "needs_auth":
                self._say("needs_auth", fault.reason)
            raise
        self._proved = True
        if not self._listed.is_set():  # a call that changed the tools: the next turn must have them
            with suppress(TimeoutError):
                await asyncio.wait_for(self._listed.wait(), _LISTING)
        if self.status != "connected" and connection is self._connection:
            self._say("connected", None)
        return result

    async def _connected(self) -> session.Connection:
        tried = False
        while (connection := self._connection) is None or connection.ended:
            if self._stop.is_set() or (self._given_up and (tried or self.endpoint.url is None)):
                raise Fault(f"it is not connected: {self.reason}", status=self._fault_status)
            if self._given_up:
                tried = True
                self._given_up = False
                self._retry.set()
            await self._changed.wait()
        return connection

    def _on_change(self) -> None:
        """The server says that its tools changed; a burst of that costs one listing."""
        self._stale = True
        connection = self._connection
        if connection is not None and not self._refreshing:
            self._refreshing = True
            self._listed.clear()
            self._jobs.start(self._refresh(connection))

    async def _refresh(self, connection: session.Connection) -> None:
        try:
            while self._stale and not connection.ended:
                await asyncio.sleep(_DEBOUNCE)
                self._stale = False
                async with asyncio.timeout(self.endpoint.timeout):
                    self._publish(await connection.tools())
        except (Fault, TimeoutError) as error:
            if not connection.ended:
                logger.warning("MCP server %r did not list its changed tools: %s", self.endpoint.name, error)
        finally:
            self._refreshing = False
            self._listed.set()

    def _publish(self, listed: tuple[ListedTool, ...]) -> None:
        tools = tuple([tool.masked(self._redact) for tool in listed])
        if tools != self.tools:
            self.tools = tools
            self._on_tools()

    def _say(self, status: Status, reason: str | None) -> None:
        self.status, self.reason = status, reason
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def _fault_status(self) -> Literal["failed", "needs_auth"]:
        return "needs_auth" if self.status == "needs_auth" else "failed"


def in_words(seconds: float) -> str:
    """A timeout for an error text. So short a one was most likely meant to be in seconds."""
    hint = " (the configured 'timeout' is in milliseconds)" if seconds < _UNLIKELY else ""
    return f"{seconds:g} seconds{hint}"


_sdk: Any = None


async def _load_sdk() -> Any:
    """The module that needs the SDK: a second of imports, kept off the event loop. Raises `Fault`."""
    global _sdk
    if _sdk is None:
        try:
            _sdk = await run_in_thread(importlib.import_module, "toolnexus.protocols.mcp.session")
        except ImportError as error:
            raise Fault(f"it needs the package mcp>=2.3 (pip install 'mcp>=2.3'): {error}") from None
    return _sdk
