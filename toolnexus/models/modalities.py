"""What a model may do besides messages. A model has the methods of what it can do, and no others.

Each raises `ConfigError` for what its endpoint cannot honour, before anything is sent, and `ModelError` when
the request failed.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from toolnexus.core.modalities import (
    EmbeddingRequest,
    Embeddings,
    ImageRequest,
    MediaReply,
    SpeechRequest,
    Transcript,
    TranscriptionRequest,
    VideoRequest,
)


@runtime_checkable
class Checking(Protocol):
    """Says beforehand what it cannot be asked."""

    def check(self, request: Any) -> None:
        """Raises `ConfigError` for a request of any kind that its endpoint cannot honour. Sends nothing."""
        ...


@runtime_checkable
class ImageModel(Protocol):
    """Makes images."""

    async def generate_images(self, request: ImageRequest) -> MediaReply:
        """Images for a text."""
        ...


@runtime_checkable
class VideoModel(Protocol):
    """Makes videos."""

    async def generate_video(self, request: VideoRequest) -> MediaReply:
        """A video for a text; takes as long as it takes."""
        ...


@runtime_checkable
class SpeechModel(Protocol):
    """Speaks."""

    async def speak(self, request: SpeechRequest) -> MediaReply:
        """The text as sound."""
        ...


@runtime_checkable
class TranscriptionModel(Protocol):
    """Writes down what is said."""

    async def transcribe(self, request: TranscriptionRequest) -> Transcript:
        """The text of the sound."""
        ...


@runtime_checkable
class EmbeddingModel(Protocol):
    """Gives the meaning of texts as vectors."""

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """A vector for each text."""
        ...
