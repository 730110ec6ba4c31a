"""Controls of text, extensions and metadata, as either style gets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.graph.inference.worlds import EITHER_STYLE, Host, channel, failure, one, said, served, tool
from toolnexus import Message, ModelResponse, assistant
from toolnexus.core.messages import OpaquePart
from toolnexus.errors import ConfigError
from toolnexus.graph import Services, Target
from toolnexus.models.chat.request import read_request
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

_FULL = "model_context_window_exceeded"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def sent(style: str, text: Mapping[str, Any], answer: Any = "fine", **node: Any) -> dict[str, Any]:
    """The body of the request for a text with these controls."""
    async with served(style, [answer]) as (endpoint, model):
        services = Services(models=model, toolkit=[tool("add")])
        await one({"intent": {"text": dict(text)}, **node}, services).run(said("hi"))
    return endpoint.requests[0].body


async def test_controls_of_a_text_are_options_of_chat_completions() -> None:
    """[GR-340] Temperature, nucleus, length and reasoning."""
    body = await sent(
        "openai",
        {"temperature": 0.5, "top_p": 1, "max_output_tokens": 99, "reasoning_effort": "high"},
    )
    assert (body["temperature"], body["top_p"]) == (0.5, 1)
    assert (body["max_completion_tokens"], body["reasoning_effort"]) == (99, "high")


async def test_controls_of_a_text_for_anthropic() -> None:
    """[GR-340] The same in the words of the other style."""
    body = await sent("anthropic", {"top_p": 0.9, "max_output_tokens": 99, "reasoning_effort": "minimal"})
    assert (body["top_p"], body["max_tokens"]) == (0.9, 99)
    assert (body["thinking"], body["output_config"]) == ({"type": "adaptive"}, {"effort": "low"})


@pytest.mark.parametrize(
    ("text", "openai", "anthropic"),
    [
        ({}, None, None),
        ({"reasoning_enabled": True}, "medium", {"type": "adaptive"}),
        ({"reasoning_enabled": False}, "none", {"type": "disabled"}),
        ({"reasoning_effort": "xhigh", "reasoning_enabled": True}, "xhigh", {"type": "adaptive"}),
    ],
)
async def test_reasoning_is_on_off_or_as_much_as_is_said(text: Any, openai: Any, anthropic: Any) -> None:
    """[GR-340] Nothing is sent when nothing is said."""
    assert (await sent("openai", text)).get("reasoning_effort") == openai
    assert (await sent("anthropic", text)).get("thinking") == anthropic


@pytest.mark.parametrize(
    ("choice", "openai", "anthropic"),
    [
        ({"kind": "auto"}, "auto", {"type": "auto"}),
        ({"kind": "required"}, "required", {"type": "any"}),
        (
            {"kind": "named", "name": "add"},
            {"type": "function", "function": {"name": "add"}},
            {"type": "tool", "name": "add"},
        ),
    ],
)
async def test_a_choice_of_tools_goes_out(choice: Any, openai: Any, anthropic: Any) -> None:
    """[GR-341] In either style."""
    calls = {"calls": [{"name": "add", "id": "c1"}]}
    config = {"tools": ["add"], "tool_choice": choice}
    assert (await sent("openai", {}, calls, **config))["tool_choice"] == openai
    assert (await sent("anthropic", {}, calls, **config))["tool_choice"] == anthropic


async def test_no_tool_may_be_called() -> None:
    """[GR-341] `none`."""
    config = {"tools": ["add"], "tool_choice": {"kind": "none"}}
    assert (await sent("openai", {}, **config))["tool_choice"] == "none"
    assert (await sent("anthropic", {}, **config))["tool_choice"] == {"type": "none"}


@EITHER_STYLE
async def test_a_schema_is_asked_for_in_the_way_that_the_endpoint_has(style: str) -> None:
    """[GR-342] json_schema, natively."""
    response = {"kind": "json_schema", "name": "count", "schema": SCHEMA}
    body = await sent(style, {"response": response, "reasoning_effort": "low"}, '{"n": 3}')
    if style == "openai":
        form = body["response_format"]["json_schema"]
        assert (form["name"], form["schema"]["properties"]["n"]["type"]) == ("count", "integer")
    else:
        assert body["output_config"]["format"]["schema"]["properties"]["n"]["type"] == "integer"
        assert body["output_config"]["effort"] == "low"


@EITHER_STYLE
async def test_an_object_is_asked_for(style: str) -> None:
    """[GR-342] json_object, and text asks for nothing."""
    assert await sent(style, {"response": {"kind": "json_object"}}, '{"any": 1}')
    body = await sent(style, {"response": {"kind": "text"}})
    assert "response_format" not in body
    assert "output_config" not in body


@pytest.mark.parametrize(
    ("response", "answer", "fits"),
    [
        ({"kind": "json_object"}, '{"a": 1}', True),
        ({"kind": "json_object"}, "[1]", False),
        ({"kind": "json_object"}, "no", False),
        ({"kind": "json_schema", "name": "c", "schema": SCHEMA}, '{"n": 3}', True),
        ({"kind": "json_schema", "name": "c", "schema": SCHEMA}, '{"n": "x"}', False),
        ({"kind": "json_schema", "name": "c", "schema": SCHEMA}, '{"n": 3', False),
    ],
)
async def test_a_reply_must_have_the_form_that_was_asked_for(response: Any, answer: str, fits: bool) -> None:
    """[GR-312] Another one fails the node; what it cost is reported, and it is asked again when retried."""
    host = Host()
    model = ScriptedModel([answer] * 2)
    node = one({"intent": {"text": {"response": response}}}, Services(models=model), max_node_retries=1)
    if fits:
        assert channel(await node.run(said("hi")))[-1] == f"assistant:{answer}"
        return
    error = await failure(node, said("hi"), host)
    assert (error.kind, error.code, len(host.usage)) == ("internal", "invalid_provider_response", 2)
    assert channel(error.board) == ["user:hi"]


@pytest.mark.parametrize(
    ("response", "reason", "parts"),
    [
        (reply("hi"), "completed", 1),
        (reply("hi", stop="length"), "max_output", 1),
        (reply("hi", call("add"), stop="length"), "max_output", 1),
        (reply("", stop="length"), "max_output", 1),
        (reply("hi", stop="refusal"), "refusal", 1),
        (reply("hi", stop="paused"), "pause", 1),
        (reply(call("add")), "tool_calls", 1),
        (reply(call("add"), stop="stop"), "tool_calls", 1),
        (ModelResponse(message=assistant("x"), stop="refusal", reason="content_filter"), "content_filter", 1),
        (ModelResponse(message=assistant("x"), reason="MALFORMED_FUNCTION_CALL"), "invalid_tool_call", 1),
    ],
)
async def test_a_reply_has_a_finish_reason(response: Any, reason: str, parts: int) -> None:
    """[GR-343] In the words of graphs; calls that were cut off are not kept, no message is without parts."""
    host = Host()
    services = Services(models=ScriptedModel([response]), toolkit=[tool("add")])
    board = await one({"all_tools": True, "tool_pending_key": "p"}, services).run(said("hi"), host=host)
    assert host.deltas[-1]["finish_reason"] == reason
    assert board["p"] is (reason == "tool_calls")
    assert len(board.main[-1].parts) == parts
    assert Message.from_wire(board.main[-1].to_wire())


async def test_an_empty_reply_is_none() -> None:
    """[GR-312] A completed reply says something."""
    error = await failure(one({}, Services(models=ScriptedModel([reply("")]))), said("hi"))
    assert (error.kind, error.code) == ("internal", "invalid_provider_response")


@EITHER_STYLE
async def test_finish_reasons_over_http(style: str) -> None:
    """[GR-343] What either style says; the words that only one has are told apart."""
    length, other = ("length", "content_filter") if style == "openai" else ("max_tokens", _FULL)
    turns = [{"text": "hi", "finish": length}, {"text": "no", "finish": other}]
    host = Host()
    async with served(style, turns) as (_, model):
        node = one({}, Services(models=model))
        await node.run(said("hi"), host=host)
        await node.run(said("hi"), host=host)
    reasons = [delta["finish_reason"] for delta in host.deltas if delta["type"] == "finish"]
    assert reasons == ["max_output", "content_filter" if style == "openai" else "context_limit"]


async def test_what_a_provider_says_besides_is_a_delta() -> None:
    """[GR-306] provider_outputs before finish."""
    host = Host()
    async with served("openai", [{"text": "hi", "extra": {"citations": ["http://a"]}}]) as (_, model):
        await one({}, Services(models=model)).run(said("hi"), host=host)
    assert host.types == ["part", "provider_outputs", "finish"]
    output = {"provider": "openai", "extension": "message", "value": {"citations": ["http://a"]}}
    assert host.deltas[1]["provider_outputs"] == [output]


async def test_blocks_of_a_provider_stay_in_the_channel() -> None:
    """[GR-303] Opaque parts go back to where they came from; as a part they have their origin."""
    message = Message("assistant", (OpaquePart("p:h", {"type": "search"}), *assistant("hi").parts), "p:h")
    host = Host()
    services = Services(models=ScriptedModel([ModelResponse(message=message)]))
    board = await one({}, services).run(said("hi"), host=host)
    assert board.main[-1] == message
    assert host.deltas[0]["part"] == {"type": "data", "data": {"type": "search"}, "origin": "p:h"}


def tier(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    if fields.get("tier") not in ("flex", "fast"):
        raise ValueError(f"tier {fields.get('tier')!r} is none")
    return {"service_tier": fields["tier"]}


def another(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"model": "other"}


def test_a_caller_of_translate_cannot_add_members_of_a_body() -> None:
    """[GR-344] Extensions are the host's: `extra_body` is refused in requests from elsewhere."""
    with pytest.raises(ConfigError, match="extra_body"):
        read_request({"messages": [{"role": "user", "content": "hi"}], "extra_body": {"model": "x"}})


@EITHER_STYLE
async def test_an_extension_goes_to_its_own_provider(style: str) -> None:
    """[GR-344] What its fields mean, the host says."""
    extensions = [{"provider": style, "id": "tier", "fields": {"tier": "flex"}}]
    async with served(style, ["hi", "hi"]) as (endpoint, model):
        services = Services(models=model, extensions={f"{style}/tier": tier})
        await one({"extensions": extensions}, services).run(said("hi"))
        services = Services(models={"other/m": model}, extensions={f"{style}/tier": tier})
        await one({"extensions": extensions}, services).run(said("hi"))
    assert [seen.body.get("service_tier") for seen in endpoint.requests] == ["flex", None]


@pytest.mark.parametrize(
    ("extension", "problem"),
    [
        ({"provider": "p", "id": "nobody"}, "p/nobody"),
        ({"provider": "p", "id": "tier", "fields": {"tier": "slow"}}, "'slow'"),
        ({"provider": "p", "id": "model", "fields": {}}, "model"),
    ],
)
async def test_an_extension_that_cannot_be_is_a_validation_error(extension: Any, problem: str) -> None:
    """[GR-344] Unknown ones, refused fields, and those that would change what is asked of whom."""
    decoders: dict[str, Any] = {"p/tier": tier, "p/model": another}
    async with served("openai", []) as (endpoint, model):
        services = Services(models={"p/m": model}, extensions=decoders)
        error = await failure(one({"extensions": [extension]}, services), said("hi"))
    assert (error.kind, problem in str(error), endpoint.requests) == ("validation", True, [])


async def test_metadata_goes_where_the_target_says() -> None:
    """[GR-345] As it is, in the member that the target names; without one it is dropped."""
    async with served("openai", ["hi", "hi"]) as (endpoint, model):
        node = {"request_metadata": {"tenant": "t1"}}
        await one(node, Services(models=[Target(model=model, metadata_field="metadata")])).run(said("hi"))
        await one(node, Services(models=model)).run(said("hi"))
    assert [seen.body.get("metadata") for seen in endpoint.requests] == [{"tenant": "t1"}, None]


async def test_each_target_gets_only_its_own() -> None:
    """[GR-344] After a failed one the next gets its own extensions and metadata."""
    first = ScriptedModel([OSError("gone")])
    second = ScriptedModel(["hi"])
    services = Services(
        models=[
            Target(model=first, provider="p", name="a", metadata_field="meta"),
            Target(model=second, provider="q", name="b"),
        ],
        extensions={"p/x": lambda fields: {"x": 1}, "q/y": lambda fields: {"y": 2}},
    )
    config = {
        "extensions": [{"provider": "p", "id": "x"}, {"provider": "q", "id": "y"}],
        "request_metadata": {"k": "v"},
        "intent": {"text": {"temperature": 0.1}},
    }
    await one(config, services).run(said("hi"))
    assert first.requests[0].options == {"temperature": 0.1, "extra_body": {"x": 1, "meta": {"k": "v"}}}
    assert second.requests[0].options == {"temperature": 0.1, "extra_body": {"y": 2}}


async def test_what_a_style_does_not_have_is_refused_before_anything_is_sent() -> None:
    """[GR-340] A choice that cannot be said; the error is a validation error."""
    async with served("anthropic", []) as (endpoint, model):
        services = Services(
            models=[Target(model=model, provider="p")], extensions={"p/x": lambda f: {"stream": 1}}
        )
        config = {"extensions": [{"provider": "p", "id": "x"}]}
        error = await failure(one(config, services), said("hi"))
    assert (error.kind, endpoint.requests) == ("validation", [])
