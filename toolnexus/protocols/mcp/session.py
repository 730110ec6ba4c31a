"""One connection to a server: the SDK's session, held by one task from its first breath to its last.

The SDK's context managers must be left by the task that entered them, and must not be cancelled
from outside; so nobody but `_hold` touches them. What they raise ends here, as a `Fault`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import mcp_types as types
from mcp import MCPError
from mcp.client.session import ClientRequestContext, ClientSession, IncomingMessage
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolnexus.core.suspension import Request
from toolnexus.core.tools import ToolResult
from toolnexus.protocols.mcp.call import Call, Round, Waiting
from toolnexus.protocols.mcp.convert import elicit_result, question, tool_result
from toolnexus.protocols.mcp.endpoint import Endpoint, Era, ListedTool
from toolnexus.protocols.mcp.era import negotiate
from toolnexus.protocols.mcp.faults import Fault, Gone, SessionLost, obituary
from toolnexus.protocols.mcp.http import http_streams
from toolnexus.protocols.mcp.inflight import InFlight
from toolnexus.protocols.mcp.jobs import Jobs
from toolnexus.protocols.mcp.lane import Lane, traced
from toolnexus.protocols.mcp.listing import Unusual, lane_page, list_tools, session_page, watch_tools
from toolnexus.protocols.mcp.process import EOF_GRACE, ServerProcess
from toolnexus.protocols.mcp.stdio import ReadMessages, WriteMessages, sdk_streams
from toolnexus.runtime.redact import Redactor

_ROUNDS = 10
_CLIENT = types.Implementation(name="toolnexus", version="1")
_SDK_ERRORS = (MCPError, ValidationError, RuntimeError, OSError)


class Connection:
    """A connection that is being opened, is open, or has ended. Not reusable."""

    def __init__(
        self,
        endpoint: Endpoint,
        process: ServerProcess | None,
        *,
        first: Era,
        redact: Redactor,
        on_change: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        """Start opening now. `first` is the era that is tried first when the endpoint leaves it open."""
        self._endpoint = endpoint
        self.process = process
        self._first: Era = first
        self._redact = redact
        self._on_change = on_change
        self._on_end = on_end
        self._jobs = Jobs(f"mcp session {endpoint.name}")
        self._settled = asyncio.Event()
        self._stop = asyncio.Event()
        self._error: BaseException | None = None
        self._session: ClientSession | None = None
        self._lane = Lane(process) if process is not None else None
        self._without_output: frozenset[str] = frozenset()
        """Tools without an output schema: nothing of the session's to hold a result against."""
        self._calls = InFlight(endpoint.name, redact)
        self._holder = self._jobs.start(self._hold())
        self.ended = False
        """Whether the server has gone, or the session is of no use any more."""

    async def ready(self) -> None:
        """Wait until the server has agreed on a protocol. Raises `Fault` when it does not."""
        await self._settled.wait()
        if self._session is None:
            raise await self._fault(self._error)

    @property
    def era(self) -> Era:
        return "stateless" if self._live.protocol_version in MODERN_PROTOCOL_VERSIONS else "handshake"

    @property
    def instructions(self) -> str | None:
        """What the server wants a model to know of it."""
        return self._live.instructions

    async def tools(self) -> tuple[ListedTool, ...]:
        """All its tools, every page. Raises `Fault`."""
        try:
            if (lane := self._swift) is not None:
                with contextlib.suppress(Unusual):
                    found = await list_tools(lane_page(lane), self._endpoint.name)
                    self._without_output = frozenset([tool.name for tool in found])
                    return found
            self._without_output = frozenset()
            return await list_tools(session_page(self._live), self._endpoint.name)
        except _SDK_ERRORS as error:
            raise await self._fault(error) from error

    async def call(self, call: Call) -> ToolResult:
        """Call a tool, and answer what the server asks meanwhile. Raises `Fault`.

        Cancelling it tells the server and leaves the connection as it is.
        """
        try:
            with self._calls.holding(call):
                return tool_result(await self._rounds(call), self._endpoint.name)
        except _SDK_ERRORS as error:
            raise await self._fault(error) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise Gone("the connection broke") from None  # a cancel of the SDK's own, gone astray

    async def close(self, grace: float = EOF_GRACE) -> None:
        """Leave the session, then end the process. Bounded, whatever the server does."""
        self.ended = True
        self._calls.idle.set()
        self._stop.set()
        await asyncio.wait({self._holder}, timeout=1.5)
        if not self._holder.done():
            self._holder.cancel()
            await asyncio.wait({self._holder}, timeout=0.5)
        if self.process is not None:
            await self.process.stop(grace)

    async def retire(self) -> None:
        """Close, but first let the calls in flight come to their end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._endpoint.timeout):
                await self._calls.idle.wait()
        await self.close()

    # ---- the task that holds the session

    async def _hold(self) -> None:
        try:
            async with (
                self._streams() as (read, write),
                ClientSession(
                    read,
                    write,
                    message_handler=self._on_message,
                    elicitation_callback=self._on_elicit,
                    client_info=_CLIENT,
                ) as session,
            ):
                opening = negotiate(session, self._endpoint.protocol, self._first, self._endpoint.timeout)
                await self._jobs.unless(self._stop, opening)
                if self._stop.is_set():
                    return
                self._session = session
                self._settled.set()
                async with watch_tools(session, self._on_change):
                    await self._stop.wait()
        except BaseException as error:
            self._error = _innermost(error)
            if not isinstance(self._error, (Exception, asyncio.CancelledError)):
                raise
        finally:
            self._end()
            self._settled.set()

    @contextlib.asynccontextmanager
    async def _streams(self) -> AsyncGenerator[tuple[Any, Any]]:
        if self.process is not None and self._lane is not None:
            yield ReadMessages(self.process, self._lane, self._redact, self._end), WriteMessages(self.process)
            return
        if self._endpoint.url is None:
            transport = sdk_streams(self._endpoint, self._redact, self._end)
        else:
            transport = http_streams(self._endpoint, self._redact, self._end)
        async with transport as streams:
            yield streams

    def lose(self) -> None:
        """Give it up: the server does not know it any more."""
        self._end()

    def _end(self) -> None:
        if self._lane is not None:
            self._lane.close()
        if not self.ended:
            self.ended = True
            self._on_end()

    @property
    def _live(self) -> ClientSession:
        if self._session is None:
            raise Gone("it is not connected")
        return self._session

    @property
    def _swift(self) -> Lane | None:
        """The way past the session, where there is one and nobody traces."""
        if self._lane is None or traced():
            return None
        return self._lane if self.era == "handshake" else None

    # ---- calls

    async def _rounds(self, call: Call) -> types.CallToolResult:
        """In the stateless era a server asks by answering with questions; the call is then repeated."""
        round = call.round
        for _ in range(_ROUNDS):
            responses = None if round is None else await self._responses(call, round)
            state = None if round is None else round.state
            try:
                result = await self._send(call, responses, state)
            except MCPError as error:
                if not await self._remedied(error):
                    raise
                result = await self._send(call, responses, state)
            if isinstance(result, types.CallToolResult):
                return result
            round = self._round(result)
        raise Fault(f"it asked back more than {_ROUNDS} times")

    async def _send(
        self, call: Call, responses: dict[str, Any] | None, state: str | None
    ) -> types.CallToolResult | types.InputRequiredResult:
        session = self._live
        if (lane := self._swift) is not None:
            result = await lane.call(call)
            if not result.is_error and call.tool not in self._without_output:
                await session.validate_tool_result(call.tool, result)
            return result
        return await session.call_tool(
            call.tool,
            call.arguments,
            progress_callback=call.progress,
            input_responses=responses,
            request_state=state,
            allow_input_required=True,
        )

    async def _remedied(self, error: MCPError) -> bool:
        """Whether what the server complained of is put right, so that the call may be repeated."""
        if error.code == types.HEADER_MISMATCH:
            await list_tools(session_page(self._live), self._endpoint.name)
            return True
        if error.code == types.URL_ELICITATION_REQUIRED:
            wanted = UrlElicitationRequiredError.from_error(error.error).elicitations
            answers = [await self._calls.answer(params) for params in wanted]
            return bool(answers) and all(answer.action == "accept" for answer in answers)
        return False

    def _round(self, result: types.InputRequiredResult) -> Round:
        questions: dict[str, Request] = {}
        for key, request in (result.input_requests or {}).items():
            if not isinstance(request, types.ElicitRequest):
                raise Fault(f"it wants {request.method}, which is not offered")
            questions[key] = question(request.params, self._endpoint.name)
        return Round(questions=questions, state=result.request_state)

    async def _responses(self, call: Call, round: Round) -> dict[str, Any] | None:
        """The answers to the questions of a round. Raises `Waiting` when some have none yet."""
        if not round.questions:
            await asyncio.sleep(0.1)  # it only wants to be asked again
            return None
        answers = {key: await self._calls.ask(call, asked) for key, asked in round.questions.items()}
        if None in answers.values():
            raise Waiting(round)
        return {key: elicit_result(asked, answers[key]) for key, asked in round.questions.items()}

    # ---- what the server says of its own accord

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._on_change()

    async def _on_elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        return await self._calls.answer(params)

    async def _fault(self, error: BaseException | None) -> Fault:
        """What an error means, in words without secrets."""
        match error:
            case None:
                return Gone("it was closed")
            case Fault():
                return error
            case MCPError():
                raw: Any = error.data
                data = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
                if data.get("sessionLost"):
                    return SessionLost(error.message)
                if error.code == types.CONNECTION_CLOSED and self.process is not None:
                    return Gone(self._redact(await obituary(self.process)))
                status = "needs_auth" if data.get("httpStatus") == 401 else "failed"
                return Fault(self._redact(error.message), status=status)
            case ValidationError():
                first = error.errors(include_url=False, include_input=False)[0]
                where = ".".join([str(step) for step in first["loc"]])
                return Fault(self._redact(f"it sent no valid MCP message: {where}: {first['msg']}"))
            case _:
                first_line = str(error).partition("\n")[0]
                return Fault(self._redact(first_line or type(error).__name__))


def _innermost(error: BaseException) -> BaseException:
    """The one error that says something, out of the SDK's nested groups."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error).exceptions
        error = next((e for e in group if not isinstance(e, asyncio.CancelledError)), group[0])
    return error
