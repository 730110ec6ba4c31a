"""The loop that runs an agent: turn, batch, turn."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from toolnexus.core.messages import Message, ToolCallPart, close_transcript, user
from toolnexus.core.model import ModelResponse
from toolnexus.engine.agent import Agent, as_messages
from toolnexus.engine.answering import Answering
from toolnexus.engine.background import hand_over, restore
from toolnexus.engine.delegate import MODEL_OVERRIDE
from toolnexus.engine.dispatch import run_tool_calls
from toolnexus.engine.environment import ENVIRONMENT, MODEL, Environment
from toolnexus.engine.output import OUTPUT
from toolnexus.engine.runner import result_of
from toolnexus.engine.turn import model_turn
from toolnexus.engine.view import View
from toolnexus.errors import ConfigError, RunError
from toolnexus.runtime.context import Outcome, RunContext
from toolnexus.runtime.hooks import settled
from toolnexus.runtime.snapshot import open_requests
from toolnexus.tools.builtin.host import CLOSED_ROOTS, READ_ROOTS

logger = logging.getLogger("toolnexus.agents")

NUDGE = "Go on with the task. If all of it is done, give the final answer."
CUT = "not run: the reply that asked for it was cut short"

_LIMITS = {"length": "length", "refusal": "refusal", "cut": "connection"}


async def run_agent(agent: Agent, input: Any, ctx: RunContext) -> Outcome:
    """The loop: turn, batch, turn, until the model calls nothing or a limit stops it.

    Raises `LimitReached`, `ModelError` and `OutputError`; the frame around it turns them into a result.
    """
    ctx, environment, answering = await _begin(agent, input, ctx)
    frame, model = ctx.frame, ctx.get(MODEL)
    assert model is not None
    calls = frame.transcript[-1].tool_calls if frame.resumed is not None and frame.transcript else ()
    if not calls:
        frame.resumed = None  # nothing was open: what is called from now on is new
        if (end := await _rest(agent, ctx)) is not None:
            return end
    while True:
        frame.check_cancelled()
        if frame.slot is not None and frame.slot.lost:
            await frame.slot.regain()
        view = environment.view(agent, ctx)
        if not calls:
            if (end := _before_turn(ctx)) is not None:
                return end
            spec = None if answering is None else answering.spec
            response = await model_turn(ctx, model, system=view.system, tools=view.tools, output=spec)
            calls = await _after_turn(agent, ctx, response, answering)
            del response  # a run that waits need not hold it
            if isinstance(calls, Outcome):
                return calls
        if calls:
            end = await _batch(agent, ctx, view, calls)
            if end is not None:
                return end
            calls = ()


async def _begin(
    agent: Agent, input: Any, ctx: RunContext
) -> tuple[RunContext, Environment, Answering | None]:
    """What is the same in every turn, and the input, or the point where the run stood."""
    environment = ctx.get(ENVIRONMENT)
    if environment is None:
        raise ConfigError(f"agent {agent.name!r} runs under a client: use client.run(agent, …)")
    await environment.welcome(agent)
    frame = ctx.frame
    model = ctx.get(MODEL_OVERRIDE) or environment.model(agent, ctx)
    if agent.scope.denies_anything:
        frame.denied = (*frame.denied, agent.scope)
    if frame.resumed is None:
        frame.transcript += as_messages(input)
    elif frame.resumed.state is not None:
        raise RunError(f"what waits is no agent {agent.name!r}; go on with the target that asked")
    elif frame.resumed.definition not in ("", _digest(agent)):
        logger.warning("agent %r was changed while its run waited; it goes on as it is now", agent.name)
    view = environment.view(agent, ctx)
    answering = Answering.of(ctx.get(OUTPUT) or agent.output, frame)
    values = {MODEL: model, MODEL_OVERRIDE: None, OUTPUT: None}
    reach = {READ_ROOTS: view.roots, CLOSED_ROOTS: view.closed}
    ctx = ctx.having({**values, **reach})
    if frame.resumed is not None and frame.resumed.background:
        restore(ctx, environment.delegation(agent, frame.denied).going_on(ctx))
    return ctx, environment, answering


def _before_turn(ctx: RunContext) -> Outcome | None:
    """What somebody wants in comes in; how the run ends when it may not ask again."""
    frame = ctx.frame
    if frame.turns >= frame.max_turns:
        return Outcome(status="incomplete", limit=frame.hit(ctx.run, "max_turns", frame.max_turns))
    if frame.inbox:
        frame.transcript += frame.inbox
        frame.inbox.clear()
    return None


async def _after_turn(
    agent: Agent, ctx: RunContext, response: ModelResponse, answering: Answering | None
) -> Outcome | Sequence[ToolCallPart]:
    """The calls of a reply (none: go on), or how the run ends."""
    frame = ctx.frame
    frame.check_cancelled()
    if response.stop in _LIMITS:
        frame.transcript[:] = close_transcript(frame.transcript, CUT)
        return Outcome(status="incomplete", limit=frame.hit(ctx.run, _LIMITS[response.stop], None))
    calls = response.message.tool_calls
    if not calls and (outcome := await _ended(agent, ctx, response, answering)) is not None:
        return outcome
    return calls


async def _batch(agent: Agent, ctx: RunContext, view: View, calls: Sequence[ToolCallPart]) -> Outcome | None:
    """Run the calls of one reply; how the run ends when it does not go on."""
    frame = ctx.frame
    if frame.journal is not None and frame.resumed is None:  # what is taken up is stored as it stood
        await frame.journal(frame)
    batch = await run_tool_calls(ctx, view, calls)
    frame.transcript.append(Message("tool", batch.results))
    frame.results.clear()
    frame.check_cancelled()
    if batch.stop is not None:
        return Outcome(status="incomplete", limit=batch.stop)
    if batch.waiting:
        asked = open_requests(batch.waiting)
        return Outcome(status="pending", requests=asked, waiting=batch.waiting, definition=_digest(agent))
    if frame.journal is not None:
        await frame.journal(frame)
    return None


def _digest(agent: Agent) -> str:
    """Of what the model is told of itself and may use, as far as it is written down."""
    from hashlib import sha256

    own = [getattr(entry, "name", "") for entry in agent.scope.own]
    said = [agent.name, agent.system_prompt, str(agent.model), repr(agent.scope.names), own]
    return sha256(json.dumps(said).encode()).hexdigest()


async def _ended(
    agent: Agent, ctx: RunContext, response: ModelResponse, answering: Answering | None
) -> Outcome | None:
    """The end of the run at a reply without calls; None when it goes on."""
    if response.stop == "paused" or ctx.frame.inbox:
        return None
    if ctx.frame.background is not None and ctx.frame.background.open:
        return await _rest(agent, ctx)
    outcome = Outcome() if answering is None else answering.outcome(response.message)
    return None if outcome is None or await _goes_on(agent, ctx, outcome) else outcome


async def _rest(agent: Agent, ctx: RunContext) -> Outcome | None:
    """Nothing is left to do but what runs in the background: the end of the run when that asks, or
    None, with its results before the model."""
    background = ctx.frame.background
    if background is None or not background.open or await hand_over(ctx):
        return None
    return Outcome(status="pending", definition=_digest(agent))


async def _goes_on(agent: Agent, ctx: RunContext, outcome: Outcome) -> bool:
    """Whether `should_continue` wants more; then the nudge is in the transcript."""
    if agent.should_continue is None:
        return False
    if not await settled(agent.should_continue(result_of(ctx, outcome))):
        return False
    ctx.frame.transcript.append(user(NUDGE))
    return True
