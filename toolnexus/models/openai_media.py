"""Images, speech, transcripts and vectors at an endpoint of the OpenAI style.

Above: `openai`, which has these methods. Below: `hosted` (request on its way), `openai_media_forms`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from toolnexus.errors import ConfigError
from toolnexus.models.encode import dumps
from toolnexus.models.hosted import HostedModel
from toolnexus.models.wire import MediaWire

if TYPE_CHECKING:
    from toolnexus.core.modalities import (
        EmbeddingRequest,
        Embeddings,
        ImageRequest,
        MediaReply,
        SpeechRequest,
        Transcript,
        TranscriptionRequest,
    )

T = TypeVar("T")


class OpenAIMedia(HostedModel):
    """What a model of this style may do besides messages; which of it one really does, its endpoint says."""

    async def generate_images(self, request: ImageRequest) -> MediaReply:
        """Images for a text. Raises `ConfigError` for a seed and an aspect ratio, and `ModelError`."""
        from toolnexus.models import openai_media_forms as forms

        body = dumps(forms.image_body(self.name, request))
        return await self._posted("/images/generations", body, lambda reply: forms.images(reply, request))

    async def speak(self, request: SpeechRequest) -> MediaReply:
        """The text as sound, one MP3 unless the format says otherwise.

        Raises `ConfigError` without a voice and for what the style does not have, and `ModelError`.
        """
        from toolnexus.models import openai_media_forms as forms

        body, wire = dumps(forms.speech_body(self.name, request)), self._media_wire

        async def attempt() -> MediaReply:
            content, kind = await wire.fetch("/audio/speech", body)
            return self._read(lambda: forms.sound(content, kind, request))

        return await self._retried(attempt)

    async def transcribe(self, request: TranscriptionRequest) -> Transcript:
        """The text of the sound. Raises `ConfigError` for what is no sound, and `ModelError`."""
        from toolnexus.models import openai_media_forms as forms

        fields, file = forms.transcription_form(self.name, request)
        wire = self._media_wire

        async def attempt() -> Transcript:
            reply = await wire.upload("/audio/transcriptions", fields, file)
            return self._read(lambda: forms.transcript(reply, request))

        return await self._retried(attempt)

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """A vector for each text. Raises `ModelError`."""
        from toolnexus.models import openai_media_forms as forms

        body = dumps(forms.embedding_body(self.name, request))
        return await self._posted("/embeddings", body, lambda reply: forms.embeddings(reply, request))

    def check(self, request: Any) -> None:
        """Raises `ConfigError` for what the endpoint cannot be asked; sends nothing."""
        from toolnexus.core.modalities import (
            EmbeddingRequest,
            ImageRequest,
            SpeechRequest,
            TranscriptionRequest,
        )
        from toolnexus.models import openai_media_forms as forms

        if isinstance(request, ImageRequest):
            forms.image_body(self.name, request)
        elif isinstance(request, EmbeddingRequest):
            forms.embedding_body(self.name, request)
        elif isinstance(request, SpeechRequest):
            forms.speech_body(self.name, request)
            _ = self._media_wire
        elif isinstance(request, TranscriptionRequest):
            forms.transcription_form(self.name, request)
            _ = self._media_wire
        else:
            super().check(request)

    @property
    def _media_wire(self) -> MediaWire:
        if not isinstance(self._wire, MediaWire):
            raise ConfigError("sound goes over the default wire only: leave wire= out")
        return self._wire

    async def _posted(self, path: str, body: bytes, read: Callable[[dict[str, Any]], T]) -> T:
        async def attempt() -> T:
            reply = await self._wire.post(path, body)
            return self._read(lambda: read(reply))

        return await self._retried(attempt)
