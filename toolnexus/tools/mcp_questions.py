"""What a server asks during one call: asked in place, answered before, or left open for later.

What it is: how the call of an MCP tool waits and goes on, in this process or another. What it is not:
a transport; `protocols/mcp` says when a server asks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from toolnexus.core.events import Pending
from toolnexus.core.suspension import Answer, Request, call_digest
from toolnexus.core.tools import ToolResult
from toolnexus.errors import ToolError
from toolnexus.protocols.mcp.call import Round
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.invoke import located


class Questions:
    """The questions of one call. Raises `ToolError` when the call cannot go on from where it stood.

    A server that answers with questions goes on from its own state (`round`). One that asks in the
    middle of a call is called anew, and what it asks again, it is answered as before.
    """

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._asked: dict[str, Request] = {}
        """In the middle of calls, by what was asked and how often."""
        self._times: Counter[str] = Counter()
        self._put: dict[str, Request] = {}
        """As the host sees them, by id."""
        self._open: list[Request] = []
        self.round: Round | None = None
        """Where the server stands that answered with questions."""
        stood = getattr(ctx, "resumed", None)  # a host may call a tool without a context
        if stood is not None:
            self._resume(stood)

    @property
    def _digest(self) -> str:
        return call_digest(self._ctx.tool.name, self._ctx.arguments)

    @property
    def somebody(self) -> bool:
        """Whether somebody answers in place."""
        return self._ctx.context.frame.asker is not None

    async def ask(self, request: Request, *, again: bool) -> Answer | None:
        """The answer to `request`; None when nobody answers now, so that the call waits.

        `again`: the server asks in the middle of the call, and does so anew when the call is repeated.
        """
        run, frame = self._ctx.context.run, self._ctx.context.frame
        key = self._key(request) if again else ""
        if key in self._asked:
            request = replace(self._asked[key], url=request.url)
        if (known := run.answers.get(request.id)) is not None:
            return known
        is_new = request.digest is None
        if is_new:
            request = replace(located(request, self._ctx.path, run.redact), digest=self._digest)
        self._put[request.id] = request
        if key:
            self._asked[key] = request
        if run.emit is not None and (is_new or frame.asker is not None):
            run.emit(Pending(path=self._ctx.path, request=request))
        if frame.asker is not None:
            return await frame.asker.ask(request, frame)
        self._open.append(request)
        return None

    def waiting(self, round: Round | None) -> ToolResult | None:
        """The result of a call that waits for its open questions; None when there are none."""
        if not self._open:
            return None
        state: dict[str, Any] = {
            "digest": self._digest,
            "asked": {key: request.to_json() for key, request in self._asked.items()},
        }
        if round is not None:
            questions = {key: self._put.get(r.id, r).to_json() for key, r in round.questions.items()}
            state["round"] = {"questions": questions, "state": round.state}
        return ToolResult(requests=tuple(self._open), child=state)

    def _resume(self, state: Mapping[str, Any]) -> None:
        try:
            digest = state["digest"]
            self._asked = {key: Request.from_json(asked) for key, asked in state["asked"].items()}
            if (stood := state.get("round")) is not None:
                questions = {key: Request.from_json(asked) for key, asked in stood["questions"].items()}
                self.round = Round(questions=questions, state=stood["state"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ToolError(f"the call cannot go on: where it stood is torn ({error!r})") from None
        if digest != self._digest:
            raise ToolError(
                f"refused: the arguments of {self._ctx.tool.name!r} are not those that the answer was for"
            )

    def _key(self, request: Request) -> str:
        """The same for a question that is asked again; an address may be another one each time."""
        text = json.dumps([request.kind, request.prompt, (request.data or {}).get("schema")], sort_keys=True)
        digest = sha256(text.encode()).hexdigest()[:16]
        self._times[digest] += 1
        return f"{digest}#{self._times[digest]}"
