"""One `tools/call`: the same life as a call of a model, for somebody at the other end of a wire."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolnexus.client import Client
from toolnexus.core.messages import ToolCallPart
from toolnexus.core.suspension import Answer, Request
from toolnexus.core.tools import Tool
from toolnexus.core.unicode import encodable
from toolnexus.errors import RunError
from toolnexus.runtime.context import RunContext
from toolnexus.runtime.questions import Asker
from toolnexus.runtime.snapshot import Waiting
from toolnexus.serving.load import TICKET, Load, Ticket
from toolnexus.serving.mcp.content import call_result, failed
from toolnexus.serving.mcp.progress import Reader, reported
from toolnexus.serving.mcp.questions import answer, elicitation, lacking
from toolnexus.tools.invoke import invoke

logger = logging.getLogger("toolnexus.serving")

Context = ServerRequestContext[Any, Any]
Result = types.CallToolResult | types.InputRequiredResult

MOST_WAITING = 1_000
WAITING_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class _Stood:
    """A call that waits for an answer, and comes again with it."""

    tool: str
    arguments: Mapping[str, Any]
    waiting: Waiting
    context: RunContext
    until: float = field(default_factory=lambda: time.monotonic() + WAITING_SECONDS)


class Calls:
    """The calls of one server."""

    def __init__(self, client: Client, load: Load, deadline: float) -> None:
        self._client = client
        self._load = load
        self._deadline = deadline
        self._stood: dict[str, _Stood] = {}
        self._running: set[asyncio.Task[Result]] = set()

    async def run(self, tool: Tool, ctx: Context, params: types.CallToolRequestParams) -> Result:
        """Call `tool`. A failure is a result; raises `MCPError` when there is no room."""
        ticket = self._ticket(ctx)
        with ticket.held():
            work = asyncio.create_task(self._bounded(tool, ctx, params))
            ticket.on_leave = work.cancel
            self._running.add(work)
            try:
                await asyncio.wait([work])
            finally:
                work.cancel()
                with anyio.CancelScope(shield=True):  # whatever runs below ends before this does
                    await asyncio.wait([work])
                self._running.discard(work)
            return failed("stopped: nobody waits for it any more") if work.cancelled() else work.result()

    async def aclose(self) -> None:
        """End what runs, and wait until it has."""
        for work in self._running:
            work.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _ticket(self, ctx: Context) -> Ticket:
        request = ctx.request
        ticket = request.scope.get(TICKET) if request is not None else None
        ticket = ticket or self._load.claim()
        if ticket is None:
            raise MCPError(types.INTERNAL_ERROR, f"{self._load.most} calls are under way; try again")
        return ticket

    async def _bounded(self, tool: Tool, ctx: Context, params: types.CallToolRequestParams) -> Result:
        followed = (ctx.meta or {}).get("progress_token") is not None
        watched = reported(ctx.session) if followed else nullcontext()
        limit = asyncio.timeout(self._deadline)
        asker = Asker(lambda request: _ask(ctx, request, limit)) if ctx.session.can_send_request else None
        try:
            async with limit, watched as reader:
                return await self._call(tool, ctx, params, reader, asker)
        except MCPError:
            raise
        except Exception as error:  # what it says of our insides is for our log
            if limit.expired():
                why = f"passed the deadline of {self._deadline:g} seconds and was stopped"
                return failed(f"{tool.name!r} {why}")
            text = self._client._redact(f"{type(error).__name__}: {error}")
            logger.warning("a call of %r failed: %s", tool.name, text)
            return failed(f"{tool.name!r} cannot run now")

    async def _call(
        self,
        tool: Tool,
        ctx: Context,
        params: types.CallToolRequestParams,
        reader: Reader | None,
        asker: Asker | None,
    ) -> Result:
        stood = self._taken_up(tool, params)
        call = ToolCallPart("call_1", tool.name, json.dumps(params.arguments or {}))
        async with self._client._context(reader, asker, stood.context if stood else None) as context:
            if stood is not None:
                context.run.answers = {**context.run.answers, **_answers(stood.waiting, params)}
            result = await invoke(tool, call, context, stood.waiting if stood else None, every_kind=True)
        if not result.requests:
            return call_result(result)
        waiting = Waiting(requests=result.requests, child=result.child)
        return self._asked(_Stood(tool.name, params.arguments or {}, waiting, context), ctx)

    def _asked(self, stood: _Stood, ctx: Context) -> Result:
        """The questions of a call, which comes again with the answers; an error for a caller that cannot."""
        requests, able = stood.waiting.requests, ctx.session.client_capabilities
        forms = {r.id: elicitation(r, able) for r in requests}
        asked = {id: types.ElicitRequest(params=form) for id, form in forms.items() if form is not None}
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if len(asked) < len(forms) or not is_modern:
            why = f"nobody could answer (the question was: {'; '.join(r.prompt for r in requests)})"
            missing = next((data for r in requests if (data := lacking(r, able)) is not None), None)
            if is_modern and missing is not None:
                data = missing.model_dump(by_alias=True, mode="json", exclude_none=True)
                raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, encodable(why), data)
            return failed(why)
        now = time.monotonic()
        for token in [t for t, other in self._stood.items() if other.until < now]:
            del self._stood[token]
        while len(self._stood) >= MOST_WAITING:
            del self._stood[next(iter(self._stood))]
        token = os.urandom(16).hex()
        self._stood[token] = stood
        return types.InputRequiredResult(input_requests=dict(asked), request_state=token)

    def _taken_up(self, tool: Tool, params: types.CallToolRequestParams) -> _Stood | None:
        """Where a call stood that comes with answers. Raises `MCPError` for one that is not known."""
        if params.request_state is None:
            return None
        stood = self._stood.pop(params.request_state, None)
        if stood is None or stood.until < time.monotonic():
            raise MCPError(types.INVALID_PARAMS, "no call waits under this requestState any more; call again")
        if (stood.tool, stood.arguments) != (tool.name, params.arguments or {}):
            raise MCPError(types.INVALID_PARAMS, "requestState belongs to another call")
        return stood


async def _ask(ctx: Context, request: Request, limit: asyncio.Timeout) -> Answer:
    """Put a question to the caller while the call waits, and its clock stands still.

    Raises `RunError` when it cannot be put, and `MCPError` when there is no answer.
    """
    form = elicitation(request, ctx.session.client_capabilities)
    if form is None:
        raise RunError("the caller cannot be asked")
    asked, related = (
        types.ElicitRequest(params=form),
        ServerMessageMetadata(related_request_id=ctx.request_id),
    )
    now, until = asyncio.get_running_loop().time, limit.when()
    left = None if until is None else until - now()
    limit.reschedule(None)
    try:
        result = await ctx.session.send_request(asked, types.ElicitResult, WAITING_SECONDS, related)
    finally:
        limit.reschedule(None if left is None else now() + left)
    return answer(request, result)


def _answers(waiting: Waiting, params: types.CallToolRequestParams) -> dict[str, Answer]:
    """What came with a call; one that is not there, or none, stays open."""
    given = params.input_responses or {}
    found = [(request, given.get(request.id)) for request in waiting.requests]
    return {asked.id: answer(asked, said) for asked, said in found if isinstance(said, types.ElicitResult)}
