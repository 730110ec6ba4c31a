"""A request that is ready to go, and whom it may go to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolnexus.core.content import DATA, text_of
from toolnexus.core.messages import OpaquePart, TextPart
from toolnexus.core.tools import Tool
from toolnexus.graph.errors import GraphRunError
from toolnexus.graph.inference.intents import TextIntent, ToolChoice
from toolnexus.graph.inference.prepare import Additions, check_choice, declared, dropped, form_of
from toolnexus.graph.inference.request import GenerateRequest, ModelRef
from toolnexus.graph.inference.router import Trace
from toolnexus.graph.inference.targets import Target, exact, route
from toolnexus.graph.services import Services


class Addressed(Protocol):
    """A request that says who is to answer."""

    @property
    def model(self) -> ModelRef | None: ...
    @property
    def model_hint(self) -> str | None: ...


@dataclass(slots=True, kw_only=True)
class Call:
    """A request that is ready to go: whom it may go to, and what is added for each of them."""

    request: GenerateRequest
    targets: Sequence[Target]
    additions: Additions
    tools: Sequence[Tool] = ()
    choice: ToolChoice | None = None
    trace: Trace = field(default_factory=Trace)

    def dropped(self, target: Target) -> list[dict[str, Any]]:
        """What a request to `target` leaves out, and why."""
        out = self.additions.dropped(target)
        if self.request.context and self.request.intent.text is None:
            out.append(dropped("context", f"{self.request.intent.kinds[0]} is made of the input alone"))
        return out


def prepared(services: Services, request: GenerateRequest, tools: Sequence[Tool] = ()) -> Call:
    """What `request` means here; `tools` are offered besides those that it declares itself.

    Raises `GraphRunError` for everything that can be known to be wrong before anybody is asked.
    """
    intent = request.intent
    text = intent.text or TextIntent()
    offered = (*tools, *declared(text.tools or ()))
    check_choice(text.tool_choice, offered)
    form_of(text.response)
    if len(intent.kinds) > 1:
        wanted = " and ".join(intent.kinds)
        raise GraphRunError(f"one request gives one kind of content, not {wanted}", kind="validation")
    if intent.text is None:
        media_text(request)
    additions = Additions(services, request.extensions, request.request_metadata)
    return Call(
        request=request,
        targets=chosen(services, request, intent.kinds),
        additions=additions,
        tools=offered,
        choice=text.tool_choice,
    )


def chosen(services: Services, request: Addressed, kinds: Sequence[str]) -> list[Target]:
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


def media_text(request: GenerateRequest) -> str:
    """The text that something else than a text is made of. Raises `GraphRunError` (validation) for another
    input: endpoints take no other."""
    message, kind = request.input.message, request.intent.kinds[0]
    texts = [
        text_of(part)
        for part in message.parts
        if isinstance(part, TextPart) or (isinstance(part, OpaquePart) and part.origin == DATA)
    ]
    text = "\n".join(texts)
    if message.role != "user" or len(texts) != len(message.parts) or not text.strip():
        raise GraphRunError(f"an intent of {kind} takes a text of the user, nothing else", kind="validation")
    return text
