"""Images, speech, transcripts and vectors as bodies and replies of the OpenAI style."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, cast

from toolnexus.core.messages import MediaPart
from toolnexus.core.modalities import (
    EmbeddingRequest,
    Embeddings,
    ImageRequest,
    MediaReply,
    Span,
    SpeechRequest,
    Transcript,
    TranscriptionRequest,
)
from toolnexus.core.usage import Usage
from toolnexus.errors import ConfigError

_FORMATS = {
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "pcm": "audio/pcm",
}
_SUFFIXES = {"audio/mpeg": "mp3", "audio/wav": "wav", "audio/ogg": "ogg", "audio/webm": "webm"}
_OURS = ("model", "stream")


def image_body(name: str, request: ImageRequest) -> dict[str, Any]:
    """The body for images. Raises `ConfigError`."""
    _refuse("images of an OpenAI-style endpoint", seed=request.seed, aspect_ratio=request.aspect_ratio)
    always_data = name.startswith("gpt-image")
    if always_data and request.delivery == "url":
        raise ConfigError(f"delivery='url': {name} gives images as data only; leave it out")
    form = {"data": "b64_json", "url": "url"}.get(request.delivery or "")
    size = request.size
    return _body(
        name,
        request.extra_body,
        prompt=request.prompt,
        n=request.count,
        size=None if size is None else f"{size[0]}x{size[1]}",
        quality=request.quality,
        output_format=request.output_format,
        response_format=None if always_data else form,
    )


def images(reply: Mapping[str, Any], request: ImageRequest) -> MediaReply:
    """The images of a reply."""
    form = request.output_format or reply.get("output_format") or "png"
    parts: list[MediaPart] = []
    prompts: list[str] = []
    for item in cast("list[dict[str, Any]]", reply["data"]):
        data, url = item.get("b64_json"), item.get("url")
        parts.append(MediaPart(f"image/{form}", data=data) if data else MediaPart(f"image/{form}", url=url))
        if prompt := item.get("revised_prompt"):
            prompts.append(str(prompt))
    extra = {"revised_prompts": prompts} if prompts else None
    return MediaReply(parts=tuple(parts), usage=usage_of(reply.get("usage")), extra=extra)


def speech_body(name: str, request: SpeechRequest) -> dict[str, Any]:
    """The body for speech. Raises `ConfigError`."""
    _refuse(
        "speech of an OpenAI-style endpoint",
        language=request.language,
        sample_rate=request.sample_rate,
        channels=request.channels,
        count=None if request.count == 1 else request.count,
    )
    if request.voice is None:
        raise ConfigError(f"{name} speaks with a voice: name one, such as 'alloy'")
    if request.format is not None and request.format not in _FORMATS:
        raise ConfigError(f"format={request.format!r} is none of {', '.join(_FORMATS)}")
    return _body(
        name,
        request.extra_body,
        input=request.text,
        voice=request.voice,
        response_format=request.format,
        speed=request.speed,
    )


def sound(content: bytes, kind: str, request: SpeechRequest) -> MediaReply:
    """The sound of a reply. Speech is counted by nobody."""
    told = kind if kind.startswith("audio/") else "audio/mpeg"
    mime_type = _FORMATS.get(request.format or "", told)
    data = base64.b64encode(content).decode()
    return MediaReply(parts=(MediaPart(mime_type, data=data),))


def transcription_form(
    name: str, request: TranscriptionRequest
) -> tuple[list[tuple[str, str]], tuple[str, str, bytes]]:
    """Fields and file for a transcript. Raises `ConfigError`."""
    audio = request.audio
    if audio.data is None:
        raise ConfigError("audio: give the data; an OpenAI-style endpoint fetches no address")
    if not audio.mime_type.startswith(("audio/", "video/")):
        raise ConfigError(f"audio: {audio.mime_type} is no sound")
    body = _body(name, request.extra_body, language=request.language, prompt=request.prompt)
    fields = [(key, str(value)) for key, value in body.items()]
    if request.timestamps is not None:
        fields += [("response_format", "verbose_json"), ("timestamp_granularities[]", request.timestamps)]
    else:
        fields.append(("response_format", "json"))
    suffix = _SUFFIXES.get(audio.mime_type, audio.mime_type.partition("/")[2])
    return fields, (audio.name or f"audio.{suffix}", audio.mime_type, base64.b64decode(audio.data))


def transcript(reply: Mapping[str, Any], request: TranscriptionRequest) -> Transcript:
    """The transcript of a reply."""
    pieces = reply.get("words" if request.timestamps == "word" else "segments") or ()
    spans = [
        Span(text=str(p.get("word", p.get("text", ""))), start=float(p["start"]), end=float(p["end"]))
        for p in cast("list[dict[str, Any]]", pieces)
    ]
    duration = reply.get("duration")
    return Transcript(
        text=str(reply["text"]),
        language=reply.get("language"),
        duration=None if duration is None else float(duration),
        spans=tuple(spans),
        usage=usage_of(reply.get("usage")),
    )


def embedding_body(name: str, request: EmbeddingRequest) -> dict[str, Any]:
    """The body for vectors."""
    return _body(
        name,
        request.extra_body,
        input=list(request.texts),
        dimensions=request.dimensions,
        encoding_format="float",
    )


def embeddings(reply: Mapping[str, Any], request: EmbeddingRequest) -> Embeddings:
    """The vectors of a reply, in the order of the texts. Raises `ValueError` when some are missing."""
    items = sorted(cast("list[dict[str, Any]]", reply["data"]), key=lambda item: item.get("index", 0))
    vectors = [tuple([float(x) for x in item["embedding"]]) for item in items]
    if len(vectors) != len(request.texts) or not all(vectors):
        raise ValueError(f"{len(vectors)} vectors for {len(request.texts)} texts")
    return Embeddings(vectors=tuple(vectors), usage=usage_of(reply.get("usage")))


def usage_of(data: Any) -> Usage | None:
    """The tokens that were told, in either way of telling; None when none were."""
    if not isinstance(data, dict):
        return None
    fields = cast("dict[str, Any]", data)
    given = fields.get("input_tokens", fields.get("prompt_tokens"))
    if not isinstance(given, int):
        return None
    made = fields.get("output_tokens", fields.get("completion_tokens", 0))
    return Usage(prompt_tokens=max(0, given), completion_tokens=made if isinstance(made, int) else 0)


def _body(name: str, extra: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    if ours := [key for key in _OURS if key in extra]:
        raise ConfigError(f"extra_body cannot set {ours}: they are made from the request")
    told = {key: value for key, value in fields.items() if value is not None}
    return {"model": name, **told, **extra}


def _refuse(what: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise ConfigError(f"{name}={value!r}: {what} have no such option; leave it out")
