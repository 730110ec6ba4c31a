"""A model that calls what it was not offered."""

from __future__ import annotations

from typing import Any

import pytest

from tests.graph.inference.worlds import EITHER_STYLE, Host, built, channel, failure, one, said, served, tool
from toolnexus import graph
from toolnexus.graph import Services
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

RECOVERING = {
    "tools": ["known"],
    "tool_pending_key": "pending",
    "undefined_tool_recovery": {"enabled": True},
    "recover_pending_key": "rp",
    "recover_count_key": "rc",
}
BACK = [{"from": "llm", "to": "llm", "condition": "rp == true"}, {"from": "llm", "to": "__end__"}]
GHOST = reply("I will", call("known", id="c0"), call("ghost", id="c1"))


def looping(model: Any, **config: Any) -> graph.Graph:
    nodes = [{"id": "llm", "type": "inference", "config": {**RECOVERING, **config}}]
    return built(nodes, Services(models=model, toolkit=[tool("known")]), BACK)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_model_is_told_and_the_transcript_stays_clean(stream: bool) -> None:
    """[GR-310] The feedback names the call and tool_search; it is the input of the next round, the whole
    channel is its context, and nothing of it is ever in the channel."""
    model, host = ScriptedModel([GHOST, "sorry"]), Host()
    board = await looping(model, stream=stream).run(said("go"), host=host)
    assert channel(board) == ["user:go", "assistant:sorry"]
    assert (board["rp"], board["rc"], board["pending"]) == (False, 1, False)
    assert "__recover_feedback.llm" not in board
    feedback = model.requests[1].messages[-1]
    assert feedback.role == "user"
    assert "'ghost'" in feedback.text
    assert "tool_search" in feedback.text
    assert "known" not in feedback.text
    assert [m.text for m in model.requests[1].messages[:-1]] == ["go"]
    assert len(host.usage) == 2
    assert host.types.count("finish") == 1


async def test_a_recovered_round_says_so_on_the_board() -> None:
    """[GR-310] Without an edge back the run ends with the feedback in the variable of the config."""
    services = Services(models=ScriptedModel([GHOST]), toolkit=[tool("known")])
    board = await one({**RECOVERING, "recover_feedback_key": "told"}, services).run(said("go"))
    assert (board["rp"], board["pending"], board["rc"]) == (True, False, 1)
    assert "ghost" in board["told"]
    assert channel(board) == ["user:go"]


async def test_all_keys_of_a_recovery_may_be_left_out() -> None:
    """[GR-310] A graph that always goes back needs no marker; recoveries are counted all the same."""
    model = ScriptedModel([GHOST, GHOST, GHOST])
    config = {"tools": ["known"], "undefined_tool_recovery": {"enabled": True}}
    services = Services(models=model, toolkit=[tool("known")])
    nodes = [{"id": "llm", "type": "inference", "config": config}]
    error = await failure(built(nodes, services, [{"from": "llm", "to": "llm"}]), said("go"))
    assert (error.kind, error.code, len(model.requests)) == ("internal", "undefined_tool", 3)


@pytest.mark.parametrize(("most", "asked"), [(None, 3), (0, 3), (1, 2), (3, 4)])
async def test_recoveries_have_a_cap_for_each_run(most: int | None, asked: int) -> None:
    """[GR-311] Two when none or 0 is said; past it the node fails, and nothing is appended."""
    model = ScriptedModel([GHOST] * 5)
    recovery = {"enabled": True} if most is None else {"enabled": True, "max_per_run": most}
    error = await failure(looping(model, undefined_tool_recovery=recovery), said("go"))
    assert (error.kind, error.code, error.node_id) == ("internal", "undefined_tool", "llm")
    assert len(model.requests) == asked
    assert channel(error.board) == ["user:go"]


@pytest.mark.parametrize("stream", [False, True])
async def test_without_recovery_the_node_fails(stream: bool) -> None:
    """[GR-311] Also when no tool at all is offered; what it cost is reported."""
    host = Host()
    error = await failure(one({"stream": stream}, Services(models=ScriptedModel([GHOST]))), said("go"), host)
    assert (error.kind, error.http_status, error.code) == ("internal", 500, "undefined_tool")
    assert "'known'" in str(error)
    assert len(host.usage) == 1


@pytest.mark.parametrize(("most", "kept"), [(1, ["assistant:I will"]), (2, [])])
async def test_only_a_recovered_reply_leaves_no_text(most: int, kept: list[str]) -> None:
    """[GR-321] Past the cap a streamed reply is a failure like any other: its text stays."""
    recovery = {"enabled": True, "max_per_run": most}
    model = ScriptedModel([GHOST, GHOST, "sorry"])
    graph = looping(model, undefined_tool_recovery=recovery, stream=True)
    if kept:
        assert channel((await failure(graph, said("go"))).board) == ["user:go", *kept]
    else:
        assert channel(await graph.run(said("go"))) == ["user:go", "assistant:sorry"]


@pytest.mark.parametrize(
    ("choice", "answer"),
    [
        ({"kind": "required"}, reply("no")),
        ({"kind": "named", "name": "known"}, reply("no")),
        ({"kind": "named", "name": "known"}, reply(call("other"))),
        ({"kind": "none"}, reply(call("known"))),
    ],
)
async def test_a_tool_choice_that_is_not_kept_is_never_recovered(choice: Any, answer: Any) -> None:
    """[GR-312] Such a reply fails the node as an invalid one."""
    config = {**RECOVERING, "tools": ["known", "other"], "tool_choice": choice}
    services = Services(models=ScriptedModel([answer]), toolkit=[tool("known"), tool("other")])
    error = await failure(one(config, services), said("go"))
    assert (error.kind, error.code) == ("internal", "invalid_provider_response")


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"tools": ["nobody"]}, "nobody"),
        ({"tools": ["nobody"], "all_tools": True}, "nobody"),
        ({"tool_choice": {"kind": "required"}}, "needs tools"),
        ({"tools": ["known"], "tool_choice": {"kind": "named", "name": "other"}}, "other"),
        ({"tools": ["known"], "intent": {"text": {"tools": [{"name": "x"}]}}}, "both"),
        ({"tools": ["known"], "intent": {"text": {"tool_choice": {"kind": "auto"}}}}, "both"),
        ({"tools": ["known"], "intent": {"audio": {}}}, "audio"),
    ],
)
async def test_tools_that_cannot_be_offered_are_a_validation_error(config: Any, problem: str) -> None:
    """[GR-313] Unknown names, a choice without tools, tools in two places, tools without text."""
    model = ScriptedModel([])
    services = Services(models=model, toolkit=[tool("known"), tool("other")])
    error = await failure(one(config, services), said("go"))
    assert (error.kind, problem in str(error), model.requests) == ("validation", True, [])


async def test_all_tools_are_what_the_catalog_has_now() -> None:
    """[GR-313] `all_tools` offers everything that there is when the node runs, `tools` what it names."""
    held = [tool("known")]
    model = ScriptedModel([reply("a"), reply("b"), reply("c")])
    services = Services(models=model, toolkit=lambda: held)
    await one({"all_tools": True}, services).run(said("go"))
    held.append(tool("other"))
    await one({"all_tools": True, "tools": ["other"]}, services).run(said("go"))
    await one({"tools": ["other"]}, services).run(said("go"))
    assert [[t.name for t in r.tools] for r in model.requests] == [["known"], ["known", "other"], ["other"]]


async def test_tools_of_the_intent_are_offered_and_never_run() -> None:
    """[GR-313] A declared tool needs no catalog."""
    declared = {"name": "ask", "description": "Asks.", "input_schema": {"type": "object"}}
    model = ScriptedModel([reply(call("ask", id="c1"))])
    intent = {"text": {"tools": [declared], "tool_choice": {"kind": "named", "name": "ask"}}}
    board = await one({"intent": intent, "tool_pending_key": "p"}, Services(models=model)).run(said("go"))
    assert (board["p"], model.requests[0].tools[0].description) == (True, "Asks.")
    assert model.requests[0].options == {"tool_choice": {"type": "function", "function": {"name": "ask"}}}


@EITHER_STYLE
async def test_a_recovery_over_http(style: str) -> None:
    """[GR-310] The second request of either style has the feedback as its last message, and no call."""
    turns = [{"text": "so", "calls": [{"name": "ghost", "id": "c1"}]}, {"text": "sorry"}]
    async with served(style, turns) as (endpoint, model):
        board = await looping(model, stream=True).run(said("go"))
    assert channel(board) == ["user:go", "assistant:sorry"]
    raw = endpoint.requests[1].raw.decode()
    assert "tool_search" in raw
    assert "c1" not in raw
