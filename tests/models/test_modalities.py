"""Images, speech, transcripts and vectors at an endpoint of the OpenAI style."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from toolnexus import AnthropicModel, MediaPart, OpenAIModel
from toolnexus.core.modalities import (
    EmbeddingRequest,
    ImageRequest,
    SpeechRequest,
    TranscriptionRequest,
)
from toolnexus.errors import ConfigError, ModelHTTPError, ModelResponseError
from toolnexus.models.modalities import (
    EmbeddingModel,
    ImageModel,
    SpeechModel,
    TranscriptionModel,
    VideoModel,
)
from toolnexus.testing import ScriptedEndpoint, Turn

pytestmark = pytest.mark.anyio

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 24).decode()
MP3 = base64.b64encode(b"ID3" + b"\0" * 29).decode()
WAV = base64.b64encode(b"RIFF\0\0\0\0WAVE" + b"\0" * 24).decode()
RETRIED = {"status": 503, "headers": {"retry-after": "0"}}


def model(endpoint: ScriptedEndpoint, name: str = "m", **options: Any) -> OpenAIModel:
    return OpenAIModel(name, base_url=endpoint.url, api_key="k", **options)


def test_a_model_has_the_methods_of_what_it_can_do() -> None:
    """[GR-350] OpenAI style: images, speech, transcripts, vectors, no video; Anthropic's: none."""
    openai = OpenAIModel("m", base_url="http://127.0.0.1:1")
    kinds = (ImageModel, SpeechModel, TranscriptionModel, EmbeddingModel)
    assert all(isinstance(openai, kind) for kind in kinds)
    assert not isinstance(openai, VideoModel)
    anthropic = AnthropicModel("m", base_url="http://127.0.0.1:1")
    assert not any(isinstance(anthropic, kind) for kind in (*kinds, VideoModel))


async def test_images_come_as_data_or_as_addresses() -> None:
    """[GR-351] Size, count, quality and form go out; what the endpoint made of the prompt comes back."""
    turns = [
        Turn(images=[{"b64_json": PNG, "revised_prompt": "a cat"}, {"b64_json": PNG}], usage=(7, 90)),
        Turn(images=[{"url": "http://images/1"}], usage=None),
    ]
    async with ScriptedEndpoint(turns) as endpoint:
        one = model(endpoint, "gpt-image-1")
        request = ImageRequest(prompt="cat", count=2, size=(1024, 512), quality="low", output_format="png")
        reply = await one.generate_images(request)
        other = await one.named("dall-e-3").generate_images(ImageRequest(prompt="dog", delivery="url"))
        await one.aclose()
    assert [part.mime_type for part in reply.parts] == ["image/png"] * 2
    assert reply.usage is not None
    assert (reply.usage.total_tokens, reply.extra) == (97, {"revised_prompts": ["a cat"]})
    assert (other.parts[0].url, other.usage) == ("http://images/1", None)
    first, second = endpoint.requests
    assert first.path == "/v1/images/generations"
    assert first.body == {
        "model": "gpt-image-1",
        "prompt": "cat",
        "n": 2,
        "size": "1024x512",
        "quality": "low",
        "output_format": "png",
    }
    assert second.body == {"model": "dall-e-3", "prompt": "dog", "response_format": "url"}


async def test_speech_is_sound() -> None:
    """[GR-352] MP3 unless the format says otherwise."""
    async with ScriptedEndpoint([Turn(audio=MP3), Turn(audio=WAV)]) as endpoint:
        one = model(endpoint)
        reply = await one.speak(SpeechRequest(text="hi", voice="alloy", speed=1.5))
        other = await one.speak(SpeechRequest(text="hi", voice="alloy", format="wav", count=1))
        await one.aclose()
    assert (reply.parts[0].mime_type, reply.parts[0].data, reply.usage) == ("audio/mpeg", MP3, None)
    assert other.parts[0].mime_type == "audio/wav"
    assert endpoint.requests[0].body == {"model": "m", "input": "hi", "voice": "alloy", "speed": 1.5}
    assert endpoint.requests[1].body["response_format"] == "wav"


async def test_speech_is_written_down() -> None:
    """[GR-353] As a form; timestamps, language and duration come back where they were asked for."""
    verbose = {"language": "en", "duration": 1.5, "segments": [{"text": "hello", "start": 0, "end": 1.5}]}
    words = {"words": [{"word": "hello", "start": 0.1, "end": 0.9}]}
    turns = [
        Turn(text="hello", extra=verbose),
        Turn(text="hello", extra=words),
        {"text": "hi", "usage": None},
    ]
    sound = MediaPart("audio/wav", data=WAV)
    async with ScriptedEndpoint(turns) as endpoint:
        one = model(endpoint)
        asked = TranscriptionRequest(audio=sound, language="en", prompt="names", timestamps="segment")
        long = await one.transcribe(asked)
        word = await one.transcribe(TranscriptionRequest(audio=sound, timestamps="word"))
        short = await one.transcribe(TranscriptionRequest(audio=sound))
        await one.aclose()
    assert (long.text, long.language, long.duration, long.spans[0].end) == ("hello", "en", 1.5, 1.5)
    assert (word.spans[0].text, word.spans[0].start) == ("hello", 0.1)
    assert (short.text, short.usage, short.spans) == ("hi", None, ())
    body = endpoint.requests[0].body
    assert body["file"] == ["audio.wav", "audio/wav", 36]
    assert (body["model"], body["language"], body["prompt"]) == ("m", "en", "names")
    assert body["timestamp_granularities[]"] == "segment"


async def test_texts_are_vectors() -> None:
    """[GR-354] In the order of the texts."""
    async with ScriptedEndpoint([Turn(vectors=[[1, 0], [0.5, 0.5]], usage=(4, 0))]) as endpoint:
        one = model(endpoint)
        reply = await one.embed(EmbeddingRequest(texts=["a", "b"], dimensions=2))
        await one.aclose()
    assert reply.vectors == ((1.0, 0.0), (0.5, 0.5))
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == 4
    assert endpoint.requests[0].body["dimensions"] == 2


async def test_such_requests_are_retried_and_fail_as_others_do() -> None:
    """[GR-350] After what passes; a reply of another shape is an error of the endpoint."""
    turns = [RETRIED, Turn(audio=MP3), RETRIED, Turn(text="hi"), Turn(vectors=[[1.0]]), {"status": 401}]
    async with ScriptedEndpoint(turns) as endpoint:
        one = model(endpoint)
        assert (await one.speak(SpeechRequest(text="hi", voice="v"))).parts
        sound = MediaPart("audio/wav", data=WAV)
        assert (await one.transcribe(TranscriptionRequest(audio=sound))).text == "hi"
        with pytest.raises(ModelResponseError, match="1 vectors for 2 texts"):
            await one.embed(EmbeddingRequest(texts=["a", "b"]))
        with pytest.raises(ModelHTTPError, match=r"model 'm'.*401"):
            await one.generate_images(ImageRequest(prompt="cat"))
        await one.aclose()
    assert len(endpoint.requests) == 6


@pytest.mark.parametrize(
    ("method", "request_", "problem"),
    [
        ("generate_images", ImageRequest(prompt="x", seed=1), "seed"),
        ("generate_images", ImageRequest(prompt="x", aspect_ratio="1:1"), "aspect_ratio"),
        ("generate_images", ImageRequest(prompt="x", delivery="url"), "delivery"),
        ("generate_images", ImageRequest(prompt="x", extra_body={"model": "y"}), "extra_body"),
        ("speak", SpeechRequest(text="x"), "voice"),
        ("speak", SpeechRequest(text="x", voice="v", language="en"), "language"),
        ("speak", SpeechRequest(text="x", voice="v", count=2), "count"),
        ("speak", SpeechRequest(text="x", voice="v", format="midi"), "midi"),
        ("transcribe", TranscriptionRequest(audio=MediaPart("audio/wav", url="http://a/b")), "data"),
        ("transcribe", TranscriptionRequest(audio=MediaPart("image/png", data=PNG)), "sound"),
    ],
)
async def test_what_the_style_does_not_have_is_refused(method: str, request_: Any, problem: str) -> None:
    """[GR-355] `ConfigError` that names it, before anything is sent."""
    async with ScriptedEndpoint([]) as endpoint:
        one = model(endpoint, "gpt-image-1")
        with pytest.raises(ConfigError, match=problem):
            await getattr(one, method)(request_)
        await one.aclose()
    assert endpoint.requests == []


async def test_sound_needs_the_default_wire() -> None:
    """[GR-355] Another wire carries JSON only."""
    one = OpenAIModel("m", wire=_JsonOnly())
    with pytest.raises(ConfigError, match="wire"):
        await one.speak(SpeechRequest(text="x", voice="v"))
    assert (await one.embed(EmbeddingRequest(texts=["a"]))).vectors == ((1.0,),)


class _JsonOnly:
    """A wire of somebody else."""

    host = "elsewhere"
    secrets: tuple[str, ...] = ()

    async def post(self, path: str, body: bytes) -> dict[str, Any]:
        return {"data": [{"embedding": [1]}]}

    async def stream(self, path: str, body: bytes) -> Any:
        yield {}

    async def aclose(self) -> None: ...
