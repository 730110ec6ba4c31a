"""One request to a model, through the engine: ledger, hooks, events and redaction hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolnexus.core.messages import Message
from toolnexus.core.model import ModelRequest, ModelResponse, ModelSink
from toolnexus.engine.turn import estimated, model_turn
from toolnexus.errors import ConfigError
from toolnexus.graph.errors import GraphRunError
from toolnexus.graph.inference.call import Call
from toolnexus.graph.inference.intents import TextIntent
from toolnexus.graph.inference.media import media
from toolnexus.graph.inference.prepare import form_of, options_of, transcript_of
from toolnexus.graph.inference.reply import Reply, reply_of
from toolnexus.graph.inference.router import RoutedModel
from toolnexus.graph.inference.targets import Target
from toolnexus.runtime.context import RunContext


async def generate(ctx: RunContext, call: Call, sink: ModelSink | None = None) -> Reply:
    """Send the request and give the reply; `sink` takes its text as it comes.

    Raises `Rejected` for a reply that cannot be used, `GraphRunError` (validation) for what the model cannot
    be asked, and whatever the model raises.
    """
    hide_secrets(ctx, call.targets)
    try:
        return await (_text(ctx, call, sink) if call.request.intent.text is not None else media(ctx, call))
    except ConfigError as error:
        raise GraphRunError(str(error), kind="validation") from error


async def _text(ctx: RunContext, call: Call, sink: ModelSink | None) -> Reply:
    text = call.request.intent.text or TextIntent()
    form = form_of(text.response)
    options = options_of(text, call.choice)
    system, messages = transcript_of(call.request)
    seen = ctx.frame.call_ids
    for message in messages:
        for known in message.tool_calls:
            seen.setdefault(known.id, 1)
    response = await _asked(
        ctx,
        call,
        options,
        system=system,
        tools=call.tools,
        output=form and form.spec,
        transcript=messages,
        sink=sink,
    )
    target = call.trace.answered
    assert target is not None
    usage = response.usage or estimated(ModelRequest(messages=messages, system=system), response)
    return reply_of(
        response,
        usage,
        target,
        offered=[tool.name for tool in call.tools],
        choice=call.choice,
        form=form,
        decisions=call.dropped(target),
    )


def hide_secrets(ctx: RunContext, targets: Sequence[Target]) -> None:
    """Let the run mask the keys of models that the client may not know."""
    for target in targets:
        for secret in getattr(target.model, "secrets", ()):
            ctx.run.redact.add(secret)


async def _asked(
    ctx: RunContext, call: Call, options: Mapping[str, Any], *, transcript: Sequence[Message], **more: Any
) -> ModelResponse:
    if len(call.targets) > 1:
        model = RoutedModel(call.targets, call.additions.options, call.trace)
        return await model_turn(ctx, model, options=options or None, transcript=transcript, **more)
    target = call.targets[0]
    options = {**options, **call.additions.options(target)}
    try:
        response = await model_turn(ctx, target.model, options=options or None, transcript=transcript, **more)
    except Exception as error:
        call.trace.failed(target, error)
        raise
    call.trace.succeeded(target)
    return response
