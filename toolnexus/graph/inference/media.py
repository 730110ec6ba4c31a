"""Images, speech and videos for a text, as replies of a graph."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from toolnexus.core.messages import Message
from toolnexus.core.modalities import ImageRequest, MediaReply, SpeechRequest, VideoRequest
from toolnexus.core.usage import Usage
from toolnexus.engine.turn import other_request
from toolnexus.graph.inference.call import Call, media_text
from toolnexus.graph.inference.intents import AudioIntent, ImageIntent, VideoIntent
from toolnexus.graph.inference.reply import INVALID_REPLY, Rejected, Reply
from toolnexus.graph.inference.request import GenerateRequest
from toolnexus.graph.inference.router import first_answer
from toolnexus.graph.inference.targets import METHODS, Target
from toolnexus.runtime.context import RunContext

MediaRequest = ImageRequest | SpeechRequest | VideoRequest


def media_request(request: GenerateRequest, extra_body: Mapping[str, Any]) -> MediaRequest:
    """What the one kind of a request asks for. Raises `GraphRunError` (validation) for more than a text."""
    intent, text = request.intent, media_text(request)
    if intent.image is not None:
        return _image(intent.image, text, extra_body)
    if intent.audio is not None:
        return _speech(intent.audio, text, extra_body)
    assert intent.video is not None
    return _video(intent.video, text, extra_body)


def _image(intent: ImageIntent, text: str, extra_body: Mapping[str, Any]) -> ImageRequest:
    return ImageRequest(
        prompt=text,
        count=intent.count,
        size=None if intent.size is None else (intent.size.width, intent.size.height),
        aspect_ratio=intent.aspect_ratio,
        quality=intent.quality,
        output_format=intent.output_format,
        delivery=intent.delivery,
        seed=intent.seed,
        extra_body=extra_body,
    )


def _speech(intent: AudioIntent, text: str, extra_body: Mapping[str, Any]) -> SpeechRequest:
    voice, form = intent.voice, intent.format
    return SpeechRequest(
        text=text,
        voice=None if voice is None else voice.id,
        language=(voice.language or None) if voice is not None else None,
        format=None if form is None else form.encoding,
        sample_rate=None if form is None else form.sample_rate_hz,
        channels=None if form is None else form.channels,
        speed=intent.speed,
        count=intent.count,
        extra_body=extra_body,
    )


def _video(intent: VideoIntent, text: str, extra_body: Mapping[str, Any]) -> VideoRequest:
    return VideoRequest(
        prompt=text,
        duration=None if intent.duration_millis is None else intent.duration_millis / 1000,
        resolution=intent.resolution,
        aspect_ratio=intent.aspect_ratio,
        seed=intent.seed,
        watermark=intent.watermark,
        extra_body=extra_body,
    )


async def media(ctx: RunContext, call: Call) -> Reply:
    """Ask the targets in order until one gives it. Raises what the last one raised, and `Rejected`."""
    request, kind = call.request, call.request.intent.kinds[0]

    async def ask(target: Target) -> MediaReply:
        asked = media_request(request, call.additions.body(target))
        method: Callable[[MediaRequest], Awaitable[MediaReply]] = getattr(target.model, METHODS[kind])
        return await other_request(ctx, target.model, lambda: method(asked))

    reply, target = await first_answer(call.targets, ask, call.trace)
    usage = reply.usage or Usage()
    if not reply.parts:
        raise Rejected(f"{target}: the reply has no {kind}", code=INVALID_REPLY, usage=usage)
    wanted = request.intent.image.delivery if request.intent.image is not None else None
    if wanted and any((part.url is None) is (wanted == "url") for part in reply.parts):
        raise Rejected(f"{target}: the images do not come as {wanted}", code=INVALID_REPLY, usage=usage)
    extra = {} if reply.extra is None else dict(reply.extra)
    return Reply(
        message=Message("assistant", tuple(reply.parts)),
        finish_reason="completed",
        usage=usage,
        target=target,
        decisions=call.dropped(target),
        provider_outputs=[{"provider": target.provider, "extension": kind, "value": extra}] if extra else (),
    )
