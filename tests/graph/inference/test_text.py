"""The inference node with text: what is asked, and what stands on the board afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.graph.inference.worlds import EITHER_STYLE, Host, channel, failure, one, said, served, tool
from toolnexus import Message, ToolCallPart, Usage, assistant, graph
from toolnexus.graph import GraphError, Services
from toolnexus.graph.nodes.inference import InferenceConfig
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


async def test_the_last_message_is_answered_in_its_channel() -> None:
    """[GR-300] The context and the input go out as one transcript, the reply is appended."""
    model = ScriptedModel(["fine"])
    board = await one({}, Services(models=model)).run(said("hi", assistant("hello"), "how are you?"))
    assert channel(board) == ["user:hi", "assistant:hello", "user:how are you?", "assistant:fine"]
    assert [m.text for m in model.requests[0].messages] == ["hi", "hello", "how are you?"]


async def test_another_channel_is_read_and_written() -> None:
    """[GR-300] messages_channel; the main channel is untouched."""
    model = ScriptedModel(["fine"])
    node = one({"messages_channel": "side"}, Services(models=model))
    board = await node.run(said("hi", channel="side"))
    assert channel(board, "side") == ["user:hi", "assistant:fine"]
    assert channel(board) == []


@pytest.mark.parametrize("messages", [(), ("hi", assistant("hello")), (Message.from_wire(
    {"role": "system", "content": {"parts": [{"type": "text", "text": "be kind"}]}}),)])  # fmt: skip
async def test_there_must_be_something_to_answer(messages: Any) -> None:
    """[GR-301] An empty channel, and one that ends with anything but user or tool, is a validation error."""
    model = ScriptedModel([])
    error = await failure(one({}, Services(models=model), max_node_retries=3), said(*messages))
    assert (error.kind, error.node_id, model.requests) == ("validation", "llm", [])


async def test_the_system_prompt_is_not_written_to_the_channel() -> None:
    """[GR-302] It stands before a context that does not begin with a system message, references resolved."""
    model = ScriptedModel(["fine"])
    node = one({"system_prompt": "be ${board:tone:brief}"}, Services(models=model))
    board = await node.run(said("hi"))
    assert (model.requests[0].system, channel(board)) == ("be brief", ["user:hi", "assistant:fine"])


async def test_a_system_message_of_the_channel_comes_before_the_prompt_of_the_node() -> None:
    """[GR-302] What the context begins with holds; all system messages become the request's system."""
    first = Message.from_wire({"role": "system", "content": {"parts": [{"type": "text", "text": "be kind"}]}})
    model = ScriptedModel(["fine"])
    await one({"system_prompt": "be brief"}, Services(models=model)).run(said(first, "hi", first, "you?"))
    assert model.requests[0].system == "be kind\n\nbe kind"
    assert [m.role for m in model.requests[0].messages] == ["user", "user"]


async def test_a_system_prompt_may_be_a_file(tmp_path: Path) -> None:
    """[GR-302] {file} and {embed} are texts, with references."""
    (tmp_path / "prompt.md").write_text("be ${board:tone}")
    document = {
        "name": "g",
        "entry": "a",
        "nodes": [{"id": "a", "type": "inference", "config": {"system_prompt": {"file": "prompt.md"}}}],
    }
    definition = graph.GraphDefinition.from_data(document, folder=tmp_path)
    model = ScriptedModel(["fine"])
    node = graph.build(definition, graph.Registry.standard(Services(models=model)))
    await node.run(said("hi", tone="kind"))
    assert model.requests[0].system == "be kind"


async def test_data_is_read_as_json_text() -> None:
    """[GR-303] A data part of a message goes out as text."""
    data = {"role": "user", "content": {"parts": [{"type": "data", "data": {"a": [1, 2]}}]}}
    model = ScriptedModel(["fine"])
    board = await one({}, Services(models=model)).run(said(Message.from_wire(data)))
    assert model.requests[0].messages[0].text == '{"a": [1, 2]}'
    assert board.main[0].to_wire() == data


async def test_the_reply_goes_to_variables_too() -> None:
    """[GR-304] output_key, usage_key and tool_pending_key."""
    usage = Usage(prompt_tokens=7, completion_tokens=2, cached_tokens=4)
    model = ScriptedModel([reply("fine", usage=usage)])
    keys = {"output_key": "out", "usage_key": "u", "tool_pending_key": "pending"}
    board = await one(keys, Services(models=model)).run(said("hi"))
    assert board["out"] == {"role": "assistant", "content": {"parts": [{"type": "text", "text": "fine"}]}}
    assert board["u"] == {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9, "cached_tokens": 4}
    assert board["pending"] is False


async def test_a_call_of_a_tool_is_pending_and_never_run() -> None:
    """[GR-304] The message holds the calls, and tool_pending_key is true."""
    model = ScriptedModel([reply("let me see", call("add", id="c1", a=2))])
    node = one({"tools": ["add"], "tool_pending_key": "p"}, Services(models=model, toolkit=[tool("add")]))
    board = await node.run(said("2+3?"))
    assert board["p"] is True
    assert board.main[-1].tool_calls == (ToolCallPart("c1", "add", '{"a": 2}'),)


async def test_a_message_of_tools_is_answered() -> None:
    """[GR-300] The tail may be the results of tools; ids of calls stay unique in the channel."""
    calls = {
        "role": "assistant",
        "content": {"parts": [{"type": "tool_call", "call": {"id": "c1", "name": "add"}}]},
    }
    result = {"call_id": "c1", "content": {"parts": [{"type": "text", "text": "5"}]}, "is_error": False}
    answer = {"role": "tool", "content": {"parts": [{"type": "tool_result", "result": result}]}}
    model = ScriptedModel([reply(call("add", id="c1"))])
    node = one({"all_tools": True}, Services(models=model, toolkit=[tool("add")]))
    board = await node.run(said("2+3?", Message.from_wire(calls), Message.from_wire(answer)))
    assert [c.id.startswith("c1~") for c in board.main[-1].tool_calls] == [True]


async def test_usage_is_reported_once_for_each_call() -> None:
    """[GR-305] Also that of an endpoint which tells nothing, as an estimate."""
    host = Host()
    model = ScriptedModel([reply("fine", usage=Usage(prompt_tokens=7, completion_tokens=2))])
    await one({}, Services(models=model)).run(said("hi"), host=host)
    assert host.usage == [(7, 2)]
    model = ScriptedModel([reply("f" * 40, usage=None)])
    board = await one({"usage_key": "u"}, Services(models=model)).run(said("h" * 80), host=host)
    assert host.usage[1] == (20, 10)
    assert board["u"]["estimated"] is True


async def test_a_budget_that_ends_keeps_what_was_paid_for() -> None:
    """[GR-305] The message is on the board before usage is reported; nothing is asked again."""
    model = ScriptedModel(["one", "two"])
    node = one({"output_key": "o"}, Services(models=model), max_node_retries=3)
    error = await failure(node, said("hi"), Host(limit=1))
    assert (error.kind, error.http_status, len(model.requests)) == ("budget_exceeded", 429, 1)
    assert channel(error.board) == ["user:hi", "assistant:one"]


async def test_a_host_that_counts_itself_is_told_nothing() -> None:
    """[GR-305] `counts_models` of a host."""

    class Counting(Host):
        counts_models = True

    host = Counting()
    await one({}, Services(models=ScriptedModel(["fine"]))).run(said("hi"), host=host)
    assert host.usage == []


async def test_each_part_is_a_delta_and_the_end_is_one() -> None:
    """[GR-306] part for each part, then finish with the reason."""
    host = Host()
    model = ScriptedModel([reply("let me see", call("add", id="c1"))])
    await one({"all_tools": True}, Services(models=model, toolkit=[tool("add")])).run(said("2?"), host=host)
    text, calls, finish = host.deltas
    assert text == {"type": "part", "part": {"type": "text", "text": "let me see"}}
    assert calls["part"]["call"] == {"id": "c1", "name": "add", "arguments": "{}"}
    assert finish == {"type": "finish", "finish_reason": "tool_calls"}


async def test_deltas_that_nobody_takes_cost_nothing() -> None:
    """[GR-306] A bus that fails is logged; what was paid for stays."""
    model = ScriptedModel(["fine"])
    board = await one({}, Services(models=model)).run(said("hi"), host=Host(fails_on=".delta"))
    assert channel(board) == ["user:hi", "assistant:fine"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_that_is_there_stays_when_the_run_is_cancelled(stream: bool) -> None:
    """[GR-306] Also while its deltas wait for somebody slow."""
    told = asyncio.Event()

    class Slow(Host):
        async def publish(self, subject: str, payload: Any) -> None:
            if payload.get("part", {}).get("type") == "tool_call":
                told.set()
                await asyncio.Event().wait()

    board = said("2+3?")
    services = Services(models=ScriptedModel([reply("so", call("add", id="c1"))]), toolkit=[tool("add")])
    running = asyncio.create_task(
        one({"all_tools": True, "stream": stream}, services).run(board, host=Slow())
    )
    async with asyncio.timeout(5):
        await told.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert [len(message.tool_calls) for message in board.main] == [0, 1]


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"bogus": 1}, "bogus"),
        ({"output_key": ""}, "output_key"),
        ({"output_key": "${board:x}"}, "output_key"),
        ({"messages_channel": "${board:x}"}, "messages_channel"),
    ],
)
def test_a_node_that_cannot_be_is_refused_when_built(config: dict[str, Any], problem: str) -> None:
    """[GR-307] Unknown fields and names of variables that are not plain."""
    with pytest.raises(GraphError) as caught:
        one(config, Services(models=ScriptedModel([])))
    assert (caught.value.kind, problem in str(caught.value)) == ("validation", True)


@pytest.mark.parametrize(
    ("config", "services", "problem"),
    [
        ({"model": {"id": {"provider": "p", "name": "m"}}}, Services(), "models"),
        ({}, Services(), "router"),
        ({}, Services(models=ScriptedModel([]), router=False), "router"),
        ({"tools": ["a"]}, Services(models=ScriptedModel([])), "tools"),
        ({"all_tools": True}, Services(models=ScriptedModel([])), "tools"),
    ],
)
def test_a_node_says_what_it_cannot_be_without(
    config: dict[str, Any], services: Services, problem: str
) -> None:
    """[GR-307] Models with `model`, a router without, tools: not_found when built."""
    with pytest.raises(GraphError) as caught:
        one(config, services)
    assert (caught.value.kind, problem in str(caught.value)) == ("not_found", True)


async def test_null_is_as_good_as_nothing() -> None:
    """[GR-308] In any field that may be left out."""
    nothing = dict.fromkeys(set(InferenceConfig.model_fields) - {"messages_channel"})
    model = ScriptedModel(["fine", "fine"])
    await one(nothing, Services(models=model)).run(said("hi"))
    await one({"intent": {"text": {"temperature": None, "response": None}}}, Services(models=model)).run(
        said("hi")
    )
    assert [request.options for request in model.requests] == [None, None]


def test_the_config_has_a_json_schema() -> None:
    """[GR-308] For editors, and for whoever writes graphs with a model."""
    schema = InferenceConfig.model_json_schema()
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == set(InferenceConfig.model_fields)


@pytest.mark.parametrize(
    "config",
    [
        {"stream": "yes"},
        {"tools": "add"},
        {"undefined_tool_recovery": {"enabled": True, "max": 2}},
        {"undefined_tool_recovery": {"max_per_run": -1}},
        {"stream_failure_policy": {"on_error": "keep"}},
        {"tool_choice": {"kind": "named"}},
        {"tool_choice": {"kind": "auto", "name": "add"}},
        {"tool_choice": {"kind": "always"}},
        {"model": {"id": {"provider": "p"}}},
        {"intent": {}},
        {"intent": {"text": {"temperature": 2.1}}},
        {"intent": {"text": {"top_p": -0.1}}},
        {"intent": {"text": {"max_output_tokens": 0}}},
        {"intent": {"text": {"reasoning_effort": "extreme"}}},
        {"intent": {"text": {"reasoning_enabled": False, "reasoning_effort": "low"}}},
        {"intent": {"text": {"response": {"kind": "json_schema", "name": "x"}}}},
        {"intent": {"text": {"response": {"kind": "text", "name": "x"}}}},
        {"intent": {"text": {"response": {"kind": "json_schema", "name": "x", "schema": {"type": "array"}}}}},
        {"intent": {"text": {"tools": [{"name": "a"}, {"name": "a"}]}}},
        {"intent": {"sound": {}}},
        {"extensions": [{"provider": "openai", "id": "nobody"}]},
        {"request_metadata": {"a": 1}},
    ],
)
async def test_a_config_is_read_strictly(config: dict[str, Any]) -> None:
    """[GR-308] What no config can say is a validation error, and nothing is asked."""
    model = ScriptedModel([])
    services = Services(models=model, toolkit=[tool("add")])
    error = await failure(one(config, services, max_node_retries=2), said("hi"))
    assert (error.kind, model.requests) == ("validation", [])


@EITHER_STYLE
async def test_both_styles_are_asked_the_same(style: str) -> None:
    """[GR-300] The classic loop over real HTTP: system, tools, calls and their results."""
    turns = [{"calls": [{"name": "add", "args": {"a": 2}, "id": "c1"}]}, {"text": "five"}]
    async with served(style, turns) as (endpoint, model):
        config = {"tools": ["add"], "tool_pending_key": "p", "system_prompt": "be brief", "usage_key": "u"}
        node = one(config, Services(models=model, toolkit=[tool("add")]))
        board = await node.run(said("2+3?"))
        assert board["p"] is True
        answer = {"call_id": "c1", "content": {"parts": [{"type": "text", "text": "5"}]}, "is_error": False}
        wire = {"role": "tool", "content": {"parts": [{"type": "tool_result", "result": answer}]}}
        board.append(graph.MAIN_CHANNEL, Message.from_wire(wire))
        board = await node.run(board)
    assert (board["p"], board.main[-1].text, board["u"]["total_tokens"]) == (False, "five", 15)
    first, second = endpoint.requests
    assert "be brief" in first.raw.decode()
    assert "2+3?" in second.raw.decode()
    assert len(second.body["messages"]) == len(first.body["messages"]) + 2
