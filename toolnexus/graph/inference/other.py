"""Vectors and transcripts: for scripts only, for they are no messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from toolnexus.core.content import DATA, text_of
from toolnexus.core.messages import OpaquePart, TextPart
from toolnexus.core.modalities import EmbeddingRequest, Embeddings, Transcript, TranscriptionRequest
from toolnexus.core.usage import Usage
from toolnexus.engine.turn import Counted, other_request
from toolnexus.errors import ConfigError
from toolnexus.graph.errors import GraphRunError
from toolnexus.graph.inference.call import chosen
from toolnexus.graph.inference.generate import hide_secrets
from toolnexus.graph.inference.prepare import Additions
from toolnexus.graph.inference.reply import metadata, usage_to_wire
from toolnexus.graph.inference.request import EmbedRequest, TranscribeRequest
from toolnexus.graph.inference.router import Trace, first_answer
from toolnexus.graph.inference.targets import METHODS, Target
from toolnexus.graph.services import Services
from toolnexus.runtime.context import RunContext

C = TypeVar("C", bound=Counted)
OtherRequest = EmbeddingRequest | TranscriptionRequest


@dataclass(slots=True, kw_only=True)
class OtherCall:
    """A request for vectors or a transcript that is ready to go."""

    kind: str
    asked: OtherRequest
    request: EmbedRequest | TranscribeRequest
    targets: Sequence[Target]
    additions: Additions
    trace: Trace = field(default_factory=Trace)

    def to(self, target: Target) -> OtherRequest:
        """The request to one target."""
        body = self.additions.body(target)
        return replace(self.asked, extra_body=body) if body else self.asked


def prepared_other(services: Services, request: EmbedRequest | TranscribeRequest) -> OtherCall:
    """What `request` means here. Raises `GraphRunError` for all that is known to be wrong beforehand."""
    if isinstance(request, EmbedRequest):
        kind = "embedding"
        asked: OtherRequest = EmbeddingRequest(
            texts=[_text(item.content, n) for n, item in enumerate(request.items)],
            dimensions=request.dimensions,
        )
    else:
        kind = "transcription"
        asked = TranscriptionRequest(
            audio=request.audio,
            language=request.language,
            prompt=request.prompt,
            timestamps=request.timestamps,
        )
    return OtherCall(
        kind=kind,
        asked=asked,
        request=request,
        targets=chosen(services, request, (kind,)),
        additions=Additions(services, request.extensions, {}),
    )


def _text(parts: Sequence[Any], n: int) -> str:
    if not all(isinstance(p, TextPart) or (isinstance(p, OpaquePart) and p.origin == DATA) for p in parts):
        raise GraphRunError(f"items[{n}]: vectors are made of texts, nothing else", kind="validation")
    return "\n".join([text_of(part) for part in parts])


async def embed(ctx: RunContext, call: OtherCall) -> tuple[dict[str, Any], Usage]:
    """`{embeddings, usage, metadata}` as JSON values, and the usage. Raises `GraphRunError` (validation) for
    what no target can honour, and what the last one raised."""
    reply, target = await _answered(ctx, call, Embeddings)
    usage = reply.usage or Usage()
    return {
        "embeddings": [{"vector": list(vector)} for vector in reply.vectors],
        "usage": {"input_tokens": usage.prompt_tokens, "item_count": len(reply.vectors)},
        "metadata": metadata(target, "embed", call.additions.dropped(target)),
    }, usage


async def transcribe(ctx: RunContext, call: OtherCall) -> tuple[dict[str, Any], Usage]:
    """`{text, language?, duration_millis?, segments?, usage, metadata}` as JSON values, and the usage. Raises
    as `embed` does."""
    reply, target = await _answered(ctx, call, Transcript)
    usage = reply.usage or Usage()
    out: dict[str, Any] = {"text": ctx.run.redact(reply.text)}
    if reply.language:
        out["language"] = reply.language
    if reply.duration is not None:
        out["duration_millis"] = round(reply.duration * 1000)
    if reply.spans:
        out["segments"] = [
            {
                "text": ctx.run.redact(span.text),
                "start_millis": round(span.start * 1000),
                "end_millis": round(span.end * 1000),
            }
            for span in reply.spans
        ]
    done = metadata(target, "transcribe", call.additions.dropped(target))
    return {**out, "usage": usage_to_wire(usage), "metadata": done}, usage


async def _answered(ctx: RunContext, call: OtherCall, gives: type[C]) -> tuple[C, Target]:
    hide_secrets(ctx, call.targets)

    async def ask(target: Target) -> C:
        method: Callable[[OtherRequest], Awaitable[C]] = getattr(target.model, METHODS[call.kind])
        return await other_request(ctx, target.model, lambda: method(call.to(target)))

    try:
        return await first_answer(call.targets, ask, call.trace)
    except ConfigError as error:
        raise GraphRunError(str(error), kind="validation") from error
