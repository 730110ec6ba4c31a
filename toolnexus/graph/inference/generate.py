"""One request to a model, through the engine: ledger, hooks, events and redaction hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolnexus.core.messages import Message
from toolnexus.core.model import ModelRequest, ModelResponse, ModelSink
from toolnexus.core.tools import Tool
from toolnexus.engine.turn import estimated, model_turn
from toolnexus.errors import ConfigError
from toolnexus.graph.errors import GraphRunError
from toolnexus.graph.inference.intents import TextIntent, ToolChoice
from toolnexus.graph.inference.prepare import (
    Additions,
    check_choice,
    declared,
    form_of,
    options_of,
    transcript_of,
)
from toolnexus.graph.inference.reply import Reply, reply_of
from toolnexus.graph.inference.request import GenerateRequest
from toolnexus.graph.inference.router import RoutedModel, Trace
from toolnexus.graph.inference.targets import Target, exact, route
from toolnexus.graph.services import Services
from toolnexus.runtime.context import RunContext


@dataclass(slots=True, kw_only=True)
class Call:
    """A request that is ready to go: whom it may go to, and what is added for each of them."""

    request: GenerateRequest
    targets: Sequence[Target]
    additions: Additions
    tools: Sequence[Tool] = ()
    choice: ToolChoice | None = None
    trace: Trace = field(default_factory=Trace)


def prepared(services: Services, request: GenerateRequest, tools: Sequence[Tool] = ()) -> Call:
    """What `request` means here; `tools` are offered besides those that it declares itself.

    Raises `GraphRunError` for everything that can be known to be wrong before anybody is asked.
    """
    intent = request.intent
    text = intent.text or TextIntent()
    offered = (*tools, *declared(text.tools or ()))
    check_choice(text.tool_choice, offered)
    form_of(text.response)
    additions = Additions(services, request.extensions, request.request_metadata)
    return Call(
        request=request,
        targets=chosen(services, request, intent.kinds),
        additions=additions,
        tools=offered,
        choice=text.tool_choice,
    )


def chosen(services: Services, request: Any, kinds: Sequence[str]) -> list[Target]:
    """Whom a request may go to: its own model, or those of the router."""
    if request.model is None:
        return route(services, request.model_hint, kinds)
    id = request.model.id
    target = exact(services, id.provider, id.name, request.model.profile)
    if not target.gives(kinds):
        raise GraphRunError(
            f"model {str(target)!r} gives {', '.join(target.kinds)}, not {' and '.join(kinds)}",
            kind="validation",
        )
    return [target]


async def generate(ctx: RunContext, call: Call, sink: ModelSink | None = None) -> Reply:
    """Send the request and give the reply; `sink` takes its text as it comes.

    Raises `Rejected` for a reply that cannot be used, `GraphRunError` (validation) for what the model cannot
    be asked, and whatever the model raises.
    """
    text = call.request.intent.text or TextIntent()
    form = form_of(text.response)
    options = options_of(text, call.choice)
    system, messages = transcript_of(call.request)
    spoken = tuple(messages)
    hide_secrets(ctx, call.targets)
    seen = ctx.frame.call_ids
    for message in messages:
        for known in message.tool_calls:
            seen.setdefault(known.id, 1)
    try:
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
    except ConfigError as error:
        raise GraphRunError(str(error), kind="validation") from error
    target = call.trace.answered
    assert target is not None
    usage = response.usage or estimated(ModelRequest(messages=spoken, system=system), response)
    return reply_of(
        response,
        usage,
        target,
        offered=[tool.name for tool in call.tools],
        choice=call.choice,
        form=form,
        decisions=call.additions.dropped(target),
    )


def hide_secrets(ctx: RunContext, targets: Sequence[Target]) -> None:
    """Let the run mask the keys of models that the client may not know."""
    for target in targets:
        for secret in getattr(target.model, "secrets", ()):
            ctx.run.redact.add(secret)


async def _asked(
    ctx: RunContext, call: Call, options: Mapping[str, Any], *, transcript: list[Message], **more: Any
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
