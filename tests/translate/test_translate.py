"""One chat completion request to any endpoint."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolnexus import (
    AnthropicModel,
    Budget,
    Client,
    ConfigError,
    LimitReached,
    ModelHTTPError,
    ModelRequest,
    ModelResponse,
)
from toolnexus.testing import ScriptedEndpoint, ScriptedModel, Turn, call, reply

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("style", ["openai", "anthropic"])

ADD: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    },
}


def said(id: str, name: str = "add", arguments: Any = '{"a": 1}') -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


async def translated(
    style: str, turns: list[Any], request: Mapping[str, Any], **options: Any
) -> tuple[Any, Any]:
    """The completion, and the body that reached the endpoint."""
    from openai.types.chat import ChatCompletion

    async with ScriptedEndpoint(turns) as endpoint:
        client = Client(model=f"{style}:m", base_url=endpoint.url, api_key="k", builtins=False, **options)
        async with client:
            completion = await client.translate(request)
    assert len(endpoint.requests) == 1
    ChatCompletion.model_validate(completion)
    return completion, endpoint.requests[0].body


def results(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Id and text of every tool result, in order."""
    found: list[tuple[str, str]] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            found.append((message["tool_call_id"], message["content"]))
        elif isinstance(message["content"], list):
            blocks = [b for b in message["content"] if b["type"] == "tool_result"]
            found += [(b["tool_use_id"], b["content"]) for b in blocks]
    return found


@BOTH
async def test_a_request_goes_out_once_in_the_words_of_the_endpoint(style: str) -> None:
    """[TR-01] Text, tools and options go in, a chat completion comes out; nothing is run."""
    request = {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}],
        "tools": [ADD],
        "tool_choice": "required",
        "max_tokens": 99,
        "temperature": 0.5,
        "stop": "END",
    }
    turn = Turn(text="I add", calls=[call("add", a=1)])
    completion, body = await translated(style, [turn], request)
    choice = completion["choices"][0]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] == "I add"
    (made,) = choice["message"]["tool_calls"]
    assert (made["function"]["name"], json.loads(made["function"]["arguments"])) == ("add", {"a": 1})
    assert completion["usage"]["total_tokens"] > 0 and completion["model"] == "m"
    assert (body["max_tokens"], body["temperature"]) == (99, 0.5)
    if style == "openai":
        assert body["messages"] == request["messages"] and body["tool_choice"] == "required"
        assert body["stop"] == "END"
    else:
        assert body["system"][0]["text"] == "Be brief." and body["tool_choice"] == {"type": "any"}
        assert body["stop_sequences"] == ["END"] and body["tools"][0]["name"] == "add"


@BOTH
@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (Turn(text="x"), "stop"),
        (Turn(text="x", finish="LENGTH"), "length"),
        (Turn(text="x", finish="REFUSAL"), "content_filter"),
        (Turn(calls=[call("add", a=1)]), "tool_calls"),
        (Turn(calls=[call("add", a=1)], finish="LENGTH"), "length"),
    ],
)
async def test_how_a_reply_ended_is_said_in_the_same_words(style: str, turn: Turn, reason: str) -> None:
    """[TR-02] `stop`, `length`, `tool_calls` or `content_filter`, whatever the endpoint calls it."""
    words = {"openai": ("length", "content_filter"), "anthropic": ("max_tokens", "refusal")}[style]
    if turn.finish is not None:
        turn = replace(turn, finish=words[turn.finish == "REFUSAL"])
    completion, _ = await translated(
        style, [turn], {"messages": [{"role": "user", "content": "q"}], "tools": [ADD]}
    )
    assert completion["choices"][0]["finish_reason"] == reason


@BOTH
async def test_results_stand_behind_their_calls_together_and_in_order(style: str) -> None:
    """[TR-03] Wherever the caller had put them; one that is missing is told so."""
    request = {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": None, "tool_calls": [said("a"), said("b"), said("c")]},
            {"role": "tool", "tool_call_id": "b", "content": "B"},
            {"role": "user", "content": "and?"},
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "A"}]},
        ],
        "tools": [ADD],
    }
    _, body = await translated(style, ["done"], request)
    assert results(body) == [("a", "A"), ("b", "B"), ("c", "no result came with this call")]
    assert "and?" in json.dumps(body["messages"][-1])
    if style == "anthropic":
        roles = [message["role"] for message in body["messages"]]
        assert roles == ["user", "assistant", "user"], "neighbours of one role are one message"


@BOTH
async def test_ids_that_come_again_and_none_at_all_stay_paired(style: str) -> None:
    """[TR-03] Some servers begin with the same id in every turn, or give none."""
    request = {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "tool_calls": [said("call_0")]},
            {"role": "tool", "tool_call_id": "call_0", "content": "first"},
            {"role": "assistant", "tool_calls": [said("call_0"), said("")]},
            {"role": "tool", "tool_call_id": "call_0", "content": "second"},
            {"role": "tool", "tool_call_id": "", "content": "third"},
            {"role": "assistant", "content": "", "function_call": {"name": "old", "arguments": {"x": 1}}},
            {"role": "function", "name": "old", "content": "fourth"},
        ]
    }
    _, body = await translated(style, ["done"], request)
    assert [text for _, text in results(body)] == ["first", "second", "third", "fourth"]
    assert len({id for id, _ in results(body)}) == 4


@BOTH
async def test_what_a_reply_had_beside_its_text_comes_back(style: str) -> None:
    """[TR-04] Thoughts go back to their endpoint with their signature, unless the message was changed."""
    first = Turn(text="I add", reasoning="hm", thinking=("hm", "signed"), calls=[call("add", a=1)])
    question = {"role": "user", "content": "q"}
    async with ScriptedEndpoint([first, "done", "done"]) as endpoint:
        client = Client(model=f"{style}:m", base_url=endpoint.url, api_key="k", builtins=False)
        async with client:
            message = (await client.translate({"messages": [question], "tools": [ADD]}))["choices"][0][
                "message"
            ]
            assert message["reasoning_content"] == "hm"
            id = message["tool_calls"][0]["id"]
            answer = {"role": "tool", "tool_call_id": id, "content": "2"}
            await client.translate({"messages": [question, message, answer], "tools": [ADD]})
            changed = {**message, "content": "I multiply"}
            await client.translate({"messages": [question, changed, answer], "tools": [ADD]})
    kept, edited = (json.dumps(seen.body["messages"][1]) for seen in endpoint.requests[1:])
    assert "hm" in kept and "I add" in kept
    assert "hm" not in edited and "I multiply" in edited


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@BOTH
async def test_images_and_files_go_along(style: str) -> None:
    """[TR-05] Parts of a prompt and of a result, inline and by address."""
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    far = {"type": "image_url", "image_url": {"url": "https://example.com/a?b=c"}}
    request = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "look"}, image, far]},
            {"role": "assistant", "tool_calls": [said("a")]},
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "seen"}, image]},
        ]
    }
    _, body = await translated(style, ["done"], request)
    assert json.dumps(body).count(PIXEL) == 2 and "https://example.com/a?b=c" in json.dumps(body)


@BOTH
async def test_a_form_is_asked_for_in_the_way_the_endpoint_has(style: str) -> None:
    """[TR-06] `response_format` becomes what the style knows."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form = {"type": "json_schema", "json_schema": {"name": "num", "schema": schema}}
    request = {"messages": [{"role": "user", "content": "q"}], "response_format": form, "temperature": 0}
    completion, body = await translated(style, ['{"n": 1}'], request)
    assert json.loads(completion["choices"][0]["message"]["content"]) == {"n": 1}
    assert ("response_format" if style == "openai" else "output_config") in body and body["temperature"] == 0


async def test_options_of_openai_pass_and_are_refused_where_there_are_none() -> None:
    """[TR-07] One that an endpoint does not have is an error before anything is sent, never left out."""
    request = {"messages": [{"role": "user", "content": "q"}], "seed": 7, "reasoning_effort": "low"}
    _, body = await translated("openai", ["x"], request)
    assert (body["seed"], body["reasoning_effort"]) == (7, "low")
    async with ScriptedEndpoint(["never"]) as endpoint:
        async with Client(model="anthropic:m", base_url=endpoint.url, api_key="k", builtins=False) as client:
            with pytest.raises(ConfigError, match=r"seed=7.*leave it out"):
                await client.translate(request)
        assert endpoint.requests == []


@pytest.mark.parametrize(
    ("choice", "parallel", "wanted"),
    [
        ("auto", None, {"type": "auto"}),
        ("none", False, {"type": "none"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ({"type": "function", "function": {"name": "add"}}, None, {"type": "tool", "name": "add"}),
    ],
)
async def test_a_choice_of_tools_is_translated(choice: Any, parallel: Any, wanted: dict[str, Any]) -> None:
    """[TR-07] Which tool must be called, and whether several may be."""
    request = {
        "messages": [{"role": "user", "content": "q"}],
        "tools": [ADD],
        "tool_choice": choice,
        "parallel_tool_calls": parallel,
    }
    _, body = await translated("anthropic", ["x"], request)
    assert body["tool_choice"] == wanted


U = {"role": "user", "content": "q"}


NO_REQUESTS: list[tuple[Any, str]] = [
    ([], "a mapping with 'messages', not list"),
    ({}, "messages: give a list"),
    ({"messages": []}, "messages: give a list"),
    ({"messages": [{"role": "system", "content": "x"}]}, "nothing but a system prompt"),
    ({"messages": [{"role": "robot"}]}, r"messages\[0\]: role 'robot'"),
    ({"messages": ["q"]}, r"messages\[0\]: role None"),
    ({"messages": [{"role": "user", "content": 5}]}, r"messages\[0\].content: give text or a list"),
    ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "type 'video' is not understood"),
    (
        {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
        "by its id",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "image_url is not as it should",
    ),
    ({"messages": [U, {"role": "tool", "tool_call_id": "x", "content": ""}]}, "'x' answers no open call"),
    ({"messages": [U, {"role": "assistant", "tool_calls": [{}]}]}, r"tool_calls\[0\]: give"),
    ({"messages": [U], "tools": [{"name": "x"}]}, r"tools\[0\]: give"),
    ({"messages": [U], "tools": [ADD, ADD]}, r"\['add'\] are declared more than once"),
    ({"messages": [U], "tools": [{"function": {"name": "a b"}}]}, "name 'a b' must be"),
    ({"messages": [U], "stream": True}, "stream: replies come whole"),
    ({"messages": [U], "n": 2}, "n=2: one reply"),
    ({"messages": [U], "functions": []}, "functions=.*give 'tools'"),
    ({"messages": [U], "response_format": {"type": "xml"}}, "response_format="),
    ({"messages": [U], "model": "gpt-x"}, "model 'gpt-x' is not one of this client's"),
]


@pytest.mark.parametrize(("request_", "words"), NO_REQUESTS)
async def test_what_is_no_request_is_told_with_its_place(request_: Any, words: str) -> None:
    """[TR-08] Before anything is sent."""
    model = ScriptedModel(["never"])
    async with Client(model=model, builtins=False) as client:
        with pytest.raises(ConfigError, match=words):
            await client.translate(request_)
    assert model.requests == []


async def test_budgets_hooks_prices_and_metrics_hold() -> None:
    """[TR-09] A translated request is a run like any other."""

    class Words:
        def before_model(self, ctx: object, request: ModelRequest) -> None:
            seen.append(request.system)

        def after_model(self, ctx: object, response: ModelResponse) -> None:
            seen.append(response.message.text)

    seen: list[str] = []
    model = ScriptedModel(["one", "two"])
    async with Client(model=model, system_prompt="mine", builtins=False, hooks=[Words()]) as client:
        await client.translate({"messages": [U], "model": "scripted"})
        assert seen == ["mine", "one"]
        assert 'toolnexus_llm_requests_total{model="scripted",status="ok"} 1' in client.metrics()
    async with Client(model=model, builtins=False, budget=Budget(requests=0)) as client:
        with pytest.raises(LimitReached, match="requests"):
            await client.translate({"messages": [U]})


async def test_a_failure_of_the_endpoint_is_raised() -> None:
    """[TR-09] With its status, after the retries of the model."""
    async with ScriptedEndpoint([Turn(status=401)]) as endpoint:
        model = AnthropicModel("m", base_url=endpoint.url, api_key="k")
        async with Client(model=model, builtins=False) as client:
            with pytest.raises(ModelHTTPError) as failure:
                await client.translate({"messages": [U]})
    assert failure.value.status == 401


def test_calls_of_a_scripted_reply_come_back() -> None:
    """[TR-01] Any model can be behind it."""
    import anyio

    async def main() -> dict[str, Any]:
        async with Client(model=ScriptedModel([reply(call("add", a=1))]), builtins=False) as client:
            return await client.translate({"messages": [U], "tools": [ADD]})

    assert anyio.run(main)["choices"][0]["finish_reason"] == "tool_calls"


def test_the_command_line_translates_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[TR-10] `toolnexus translate FILE` writes the completion to standard output."""
    from toolnexus.cli.main import main

    path = tmp_path / "request.json"
    path.write_text(json.dumps({"model": "gpt-of-somebody", "messages": [U]}), "utf-8")
    monkeypatch.setenv("SOME_KEY", "k")
    with ScriptedEndpoint(["hello"]) as endpoint:
        words = ["translate", str(path), "--model", "anthropic:m", "--base-url", endpoint.url]
        code = main([*words, "--api-key-env", "SOME_KEY"])
    completion = json.loads(capsys.readouterr().out)
    assert code == 0 and completion["choices"][0]["message"]["content"] == "hello"
    path.write_text("[]", "utf-8")
    assert main(["translate", str(path), "--model", "anthropic:m"]) == 2
    assert "holds no request" in capsys.readouterr().err


async def test_ids_of_new_calls_are_not_those_of_the_request() -> None:
    """[TR-01] An endpoint that counts from nought in every reply names no call twice."""
    request = {
        "messages": [
            {"role": "user", "content": "1+1?"},
            {"role": "assistant", "content": None, "tool_calls": [said("call_0")]},
            {"role": "tool", "tool_call_id": "call_0", "content": "2"},
        ],
        "tools": [ADD],
    }
    model = ScriptedModel([reply(call("add", id="call_0", a=2), call("add", id="call_1", a=3))])
    async with Client(model=model, builtins=False) as client:
        completion = await client.translate(request)
    calls = completion["choices"][0]["message"]["tool_calls"]
    assert [one["id"] for one in calls] == ["call_0~2", "call_1"]
