"""Nodes that want images, speech or a video."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.graph.inference.worlds import Host, channel, failure, one, said, served, tool
from toolnexus import MediaPart, Message, Usage
from toolnexus.core.modalities import ImageRequest, MediaReply, VideoRequest
from toolnexus.errors import ModelConnectionError
from toolnexus.graph import Services, Target
from toolnexus.testing import ScriptedModel, Turn

pytestmark = pytest.mark.anyio

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 24).decode()
MP3 = base64.b64encode(b"ID3" + b"\0" * 29).decode()


class Studio(ScriptedModel):
    """Makes what it was given, and remembers what for."""

    def __init__(self, *made: Any, usage: Usage | None = None) -> None:
        super().__init__([], name="studio")
        self.made = list(made)
        self.usage = usage
        self.asked: list[Any] = []

    async def _give(self, request: Any) -> MediaReply:
        self.asked.append(request)
        made = self.made.pop(0)
        if isinstance(made, Exception):
            raise made
        return MediaReply(parts=made, usage=self.usage)

    async def generate_images(self, request: ImageRequest) -> MediaReply:
        return await self._give(request)

    async def generate_video(self, request: VideoRequest) -> MediaReply:
        return await self._give(request)


async def test_images_are_appended_as_a_message() -> None:
    """[GR-360] Over HTTP: the input is the prompt, the reply has the images, usage is reported."""
    turn = Turn(images=[{"b64_json": PNG, "revised_prompt": "a cat"}], usage=(7, 90))
    image = {"size": {"width": 64, "height": 32}, "count": 1, "quality": "low", "output_format": "png"}
    host = Host()
    async with served("openai", [turn]) as (endpoint, model):
        config = {"intent": {"image": image}, "usage_key": "u", "output_key": "o", "system_prompt": "be kind"}
        node = one(config, Services(models={"openai/gpt-image-1": model.named("gpt-image-1")}))  # type: ignore[attr-defined]
        board = await node.run(said("hi", "a cat, please"), host=host)
    assert endpoint.requests[0].body == {
        "model": "gpt-image-1",
        "prompt": "a cat, please",
        "n": 1,
        "size": "64x32",
        "quality": "low",
        "output_format": "png",
    }
    part = {"type": "image", "source": {"data": PNG, "mime_type": "image/png"}}
    assert board["o"] == {"role": "assistant", "content": {"parts": [part]}}
    assert Message.from_wire(board["o"]).parts == board.main[-1].parts
    assert (board["u"]["total_tokens"], host.usage) == (97, [(7, 90)])
    assert host.types == ["part", "provider_outputs", "finish"]
    assert host.deltas[1]["provider_outputs"][0]["value"] == {"revised_prompts": ["a cat"]}
    assert host.deltas[2]["finish_reason"] == "completed"


async def test_speech_is_appended_as_a_message() -> None:
    """[GR-361] Over HTTP; stream changes nothing."""
    audio = {"voice": "alloy", "format": {"encoding": "mp3"}, "speed": 2, "count": 1}
    async with served("openai", [Turn(audio=MP3), Turn(audio=MP3)]) as (endpoint, model):
        node = one({"intent": {"audio": audio}, "stream": True}, Services(models=model))
        board = await node.run(said("hello"))
        other = {"audio": {"voice": {"id": "x"}, "format": "mp3"}}
        await one({"intent": other}, Services(models=model)).run(said("h"))
    assert board.main[-1].parts == (MediaPart("audio/mpeg", data=MP3),)
    assert endpoint.requests[0].body == {
        "model": "m",
        "input": "hello",
        "voice": "alloy",
        "response_format": "mp3",
        "speed": 2,
    }
    assert endpoint.requests[1].body["voice"] == "x"


async def test_a_model_of_ones_own_may_make_videos() -> None:
    """[GR-362] What has `generate_video`."""
    clip = MediaPart("video/mp4", url="http://clips/1")
    studio = Studio([clip])
    video = {
        "duration_millis": 1500,
        "resolution": "720p",
        "aspect_ratio": "16:9",
        "seed": 3,
        "watermark": False,
    }
    board = await one({"intent": {"video": video}}, Services(models=studio)).run(said("waves"))
    assert board.main[-1].parts == (clip,)
    asked = studio.asked[0]
    assert (asked.prompt, asked.duration, asked.resolution) == ("waves", 1.5, "720p")
    assert (asked.aspect_ratio, asked.seed, asked.watermark) == ("16:9", 3, False)


@pytest.mark.parametrize(
    ("intent", "problem"),
    [
        ({"image": {"seed": 1}}, "seed"),
        ({"image": {"aspect_ratio": "16:9"}}, "aspect_ratio"),
        ({"image": {}, "text": {"temperature": 0.5}}, "one kind"),
        ({"audio": {}}, "voice"),
        ({"audio": {"voice": "x", "count": 2}}, "count"),
        ({"audio": {"voice": {"id": "x", "language": "en"}}}, "language"),
        ({"audio": {"voice": "x", "format": {"encoding": "mp3", "sample_rate_hz": 8000}}}, "sample_rate"),
        ({"video": {}}, "video"),
        ({"image": {"size": {"width": 1, "height": 1}, "aspect_ratio": "1:1"}}, "not both"),
        ({"image": {"count": 0}}, "count"),
        ({"audio": {"speed": 5}}, "speed"),
        ({"video": {"resolution": "big"}}, "resolution"),
        ({"video": {"duration_millis": 0}}, "duration_millis"),
        ({"image": {"output_format": "gif"}}, "output_format"),
        ({"image": {"aspect_ratio": "wide"}}, "aspect_ratio"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_before_anything_is_sent(intent: Any, problem: str) -> None:
    """[GR-363] A validation error that names it; it is not retried."""
    async with served("openai", []) as (endpoint, model):
        node = one({"intent": intent}, Services(models=model), max_node_retries=2)
        error = await failure(node, said("hi"))
    assert (error.kind, problem in str(error), endpoint.requests) == ("validation", True, [])


@pytest.mark.parametrize("intent", [{"image": {}}, {"audio": {"voice": "x"}}, {"video": {}}])
async def test_anthropic_gives_text_only(intent: Any) -> None:
    """[GR-363] By name and by router."""
    async with served("anthropic", []) as (endpoint, model):
        ref = {"id": {"provider": "anthropic", "name": "m"}}
        for config in ({"intent": intent}, {"intent": intent, "model": ref}):
            error = await failure(one(config, Services(models=model)), said("hi"))
            assert (error.kind, next(iter(intent)) in str(error)) == ("validation", True)
    assert endpoint.requests == []


async def test_media_take_a_text_of_the_user() -> None:
    """[GR-363] No images, no results of tools, no tools beside."""
    studio = Studio()
    picture = Message("user", (MediaPart("image/png", data=PNG),))
    result = {"call_id": "c", "content": {"parts": [{"type": "text", "text": "5"}]}}
    wire = {"role": "tool", "content": {"parts": [{"type": "tool_result", "result": result}]}}
    services = Services(models=studio, toolkit=[tool("add")])
    for message in (picture, Message.from_wire(wire)):
        error = await failure(one({"intent": {"image": {}}}, services), said(message))
        assert error.kind == "validation"
    error = await failure(one({"intent": {"image": {}}, "tools": ["add"]}, services), said("hi"))
    assert (error.kind, studio.asked) == ("validation", [])


async def test_the_next_target_makes_what_the_first_cannot() -> None:
    """[GR-364] After any failure, also one that is told before anything is sent; each request is counted."""
    host = Host()
    first, second = (
        Studio(ModelConnectionError("gone")),
        Studio([MediaPart("image/png", data=PNG)], usage=Usage(prompt_tokens=3)),
    )
    async with served("openai", []) as (endpoint, model):
        services = Services(
            models=[Target(model=model, provider="o"), Target(model=first), Target(model=second)]
        )
        board = await one({"intent": {"image": {"seed": 4}}}, services).run(said("hi"), host=host)
    assert len(board.main[-1].parts) == 1
    assert (endpoint.requests, len(first.asked), second.asked[0].seed, host.usage) == ([], 1, 4, [(3, 0)])


async def test_a_reply_without_what_was_wanted_is_none() -> None:
    """[GR-364] No image at all, or delivered another way."""
    for made, image in (([], {}), ([MediaPart("image/png", data=PNG)], {"delivery": "url"})):
        host = Host()
        node = one({"intent": {"image": image}}, Services(models=Studio(made, usage=Usage(prompt_tokens=3))))
        error = await failure(node, said("hi"), host)
        assert (error.kind, error.code, host.usage) == ("internal", "invalid_provider_response", [(3, 0)])
        assert channel(error.board) == ["user:hi"]


async def test_an_image_in_the_channel_does_not_hinder_the_talk() -> None:
    """[GR-360] The next text request goes out."""
    async with served("openai", [Turn(images=[{"b64_json": PNG}]), "nice"]) as (_, model):
        board = await one({"intent": {"image": {}}}, Services(models=model)).run(said("a cat"))
        board.append("__main_channel", *said("what is it?").main)
        board = await one({}, Services(models=model)).run(board)
    assert board.main[-1].text == "nice"
