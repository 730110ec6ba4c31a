"""What would become of a request, without asking anybody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from pydantic import BaseModel

from toolnexus.core.model import ModelRequest
from toolnexus.errors import ConfigError
from toolnexus.graph.inference.call import Call
from toolnexus.graph.inference.intents import TextIntent
from toolnexus.graph.inference.media import media_request
from toolnexus.graph.inference.other import OtherCall
from toolnexus.graph.inference.prepare import form_of, options_of, transcript_of
from toolnexus.graph.inference.targets import Target
from toolnexus.models.modalities import Checking


def explained(call: Call | OtherCall, operation: str) -> dict[str, Any]:
    """`{model, operation, accepted, decisions}` for the first target, as JSON values.

    A decision is `{field, disposition, reason?}`: `native` is sent, `dropped` is left out, and the whole
    request is `rejected` when the target could not be asked. Whether a model takes what its endpoint takes,
    only a request can tell.
    """
    target = call.targets[0]
    left_out = call.dropped(target) if isinstance(call, Call) else call.additions.dropped(target)
    out = {decision["field"] for decision in left_out}
    sent = [{"field": f, "disposition": "native"} for f in _fields(call.request) if f not in out]
    problem = _problem(call, target)
    if problem:
        left_out = [*left_out, {"field": "request", "disposition": "rejected", "reason": problem}]
    return {
        "model": target.ref,
        "operation": operation,
        "accepted": not problem,
        "decisions": [*sent, *left_out],
    }


def decision(call: Call | OtherCall) -> dict[str, Any]:
    """Whom the router would ask first, and then."""
    return {"selected": call.targets[0].ref, "candidates": [target.ref for target in call.targets]}


def _problem(call: Call | OtherCall, target: Target) -> str:
    if not isinstance(target.model, Checking):
        return ""
    try:
        target.model.check(_asked(call, target))
    except ConfigError as error:
        return str(error)
    return ""


def _asked(call: Call | OtherCall, target: Target) -> Any:
    if isinstance(call, OtherCall):
        return call.to(target)
    intent = call.request.intent
    if intent.text is None:
        return media_request(call.request, call.additions.body(target))
    text = intent.text or TextIntent()
    system, messages = transcript_of(call.request)
    form = form_of(text.response)
    return ModelRequest(
        messages=messages,
        system=system,
        tools=call.tools,
        output=form and form.spec,
        options={**options_of(text, call.choice), **call.additions.options(target)} or None,
    )


def _fields(request: BaseModel) -> Iterator[str]:
    """What a request says, by the paths of its fields."""
    for name in type(request).model_fields:
        value = getattr(request, name)
        if not value or name in ("model", "model_hint"):
            continue
        if name != "extensions":
            yield name
        if name == "input":
            yield from _paths("intent", value.content.intent.model_dump(exclude_none=True, by_alias=True))
        for extension in value if name == "extensions" else ():
            yield f"extensions.{extension.provider}/{extension.id}"


def _paths(at: str, value: Mapping[str, Any]) -> Iterator[str]:
    for name, inner in value.items():
        path = f"{at}.{name}"
        yield path
        if at == "intent" and isinstance(inner, dict):
            yield from [f"{path}.{control}" for control in cast("dict[str, Any]", inner)]
