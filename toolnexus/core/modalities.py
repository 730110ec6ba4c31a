"""Requests for something other than a message: images, speech, transcripts, vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from toolnexus.core.messages import MediaPart
from toolnexus.core.usage import Usage
from toolnexus.core.values import value


@value(kw_only=True)
class ImageRequest:
    """Images for a text. What is None is left to the endpoint."""

    prompt: str
    count: int | None = None
    size: tuple[int, int] | None = None
    """Width and height in pixels."""
    aspect_ratio: str | None = None
    """`16:9`, where an endpoint takes no size."""
    quality: str | None = None
    output_format: str | None = None
    """`png`, `jpeg` or `webp`."""
    delivery: Literal["data", "url"] | None = None
    seed: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Members of the body, as they are."""


@value(kw_only=True)
class VideoRequest:
    """A video for a text. What is None is left to the endpoint."""

    prompt: str
    duration: float | None = None
    """In seconds."""
    resolution: str | None = None
    """`720p`, `4k`."""
    aspect_ratio: str | None = None
    seed: int | None = None
    watermark: bool | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict[str, Any])


@value(kw_only=True)
class SpeechRequest:
    """A text, spoken. What is None is left to the endpoint."""

    text: str
    voice: str | None = None
    language: str | None = None
    format: str | None = None
    """`mp3`, `wav`, …"""
    sample_rate: int | None = None
    """In hertz."""
    channels: int | None = None
    speed: float | None = None
    count: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict[str, Any])


@value(kw_only=True)
class MediaReply:
    """Images, sounds or videos. `usage` is None when the endpoint did not say."""

    parts: Sequence[MediaPart]
    usage: Usage | None = None
    extra: Mapping[str, Any] | None = None
    """What else the endpoint said, such as the prompt that it made of ours."""


@value(kw_only=True)
class TranscriptionRequest:
    """Speech to be written down. `audio` holds data, not an address."""

    audio: MediaPart
    language: str | None = None
    prompt: str | None = None
    """Words that are likely to come up, or what was said before."""
    timestamps: Literal["segment", "word"] | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict[str, Any])


@value(kw_only=True)
class Span:
    """A piece of a transcript, with its time in seconds."""

    text: str
    start: float
    end: float


@value(kw_only=True)
class Transcript:
    """What was said. `spans` are there when timestamps were asked for."""

    text: str
    language: str | None = None
    duration: float | None = None
    """Of the audio, in seconds."""
    spans: Sequence[Span] = ()
    usage: Usage | None = None


@value(kw_only=True)
class EmbeddingRequest:
    """Texts whose meaning is wanted as vectors, in their order."""

    texts: Sequence[str]
    dimensions: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict[str, Any])


@value(kw_only=True)
class Embeddings:
    """A vector for each text, in their order."""

    vectors: Sequence[Sequence[float]]
    usage: Usage | None = None
