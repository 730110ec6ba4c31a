"""Typed answers in the loop: repairs, limits, tools, children."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.loop.support import (
    ANTHROPIC,
    OPENAI,
    WAYS,
    Way,
    bench,
    each_style,
    each_way,
    paired,
    task,
    use,
)
from tests.typed.forms import PATIENCE, Finding, Point, asked, last_user
from toolnexus import Agent, Client, Message, OutputError, RunResult, TextPart, tool
from toolnexus.core.model import ModelRequest
from toolnexus.testing import ScriptedModel, call, reply
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio

GOOD = '{"risk": 3, "files": ["a"], "note": null}'


@tool
async def look(at: str) -> str:
    """Look at a file."""
    return f"{at} is fine"


async def test_one_repair_names_each_wrong_field() -> None:
    """[TY-10] What came, what is allowed, in words; it is one turn more and nothing else."""
    result, model = await asked(Finding, '{"risk": 12, "files": "a"}', GOOD)
    said = last_user(model)
    assert "risk: 12 does not meet maximum 9" in said and 'files: expected array, got "a"' in said
    assert (result.output, result.turns, result.status) == (Finding(risk=3, files=["a"]), 2, "done")
    assert [m.role for m in result.messages] == ["user", "assistant", "user", "assistant"]


async def test_a_second_misfit_is_an_output_error() -> None:
    """[TY-11] It has the reasons and the run, whose value is None and whose work is whole."""
    with pytest.raises(OutputError) as caught:
        await asked(Finding, "no idea", reply("", call("look", at="a")), '{"risk": -1}', tools=[look])
    assert caught.value.problems == ("risk: -1 does not meet minimum 0",)
    assert "'Finding'" in str(caught.value) and "minimum 0" in str(caught.value)
    result: RunResult = caught.value.result
    assert (result.status, result.output, result.turns, result.tool_calls) == ("error", None, 3, 1)
    assert result.text == '{"risk": -1}' and result.usage.requests == 3 and paired(result.messages)
    with pytest.raises(OutputError):
        result.raise_for_status()


@pytest.mark.parametrize("text", ["I am not sure", "", '{"risk": '])
async def test_a_model_that_gives_no_json_is_told_the_schema(text: str) -> None:
    """[TY-12] Perhaps it never got it; one that gives JSON is told only what is wrong."""
    _, model = await asked(Finding, text, GOOD)
    assert '"maximum": 9' in last_user(model)
    _, model = await asked(Finding, '{"risk": 10}', GOOD)
    assert '"maximum": 9' not in last_user(model)


async def test_without_a_turn_for_the_repair_the_run_is_incomplete() -> None:
    """[TY-13] No value, no error, the text as the model wrote it."""
    result, _ = await asked(Finding, '{"risk": 12}', max_turns=1)
    assert (result.status, result.limit, result.output) == ("incomplete", "max_turns", None)
    assert result.text == '{"risk": 12}'


@pytest.mark.parametrize("stop", ["length", "refusal", "cut"])
async def test_a_cut_answer_is_never_a_value(stop: Any) -> None:
    """[TY-14] Also when what there is would parse."""
    result, model = await asked(Finding, reply(GOOD, stop=stop))
    assert (result.status, result.output, result.text) == ("incomplete", None, GOOD)
    assert len(model.requests) == 1


@each_way
@pytest.mark.parametrize("structured", ["native", "tool", "prompt"])
async def test_an_answer_cut_on_the_wire_is_incomplete(way: Way, structured: Any) -> None:
    """[TY-14] In each way: half an answer is the text of an incomplete run."""
    finish = "length" if way.style == OPENAI else "max_tokens"
    half = '{"risk": 3, "files": ["a"'
    turn = Turn(text=half, finish=finish)
    if structured == "tool":
        turn = Turn(calls=[use("final_answer", half if way.style == OPENAI else {"risk": 3})], finish=finish)
    async with bench(way, {"main": [turn]}) as b:
        model = way.model(b.endpoint, structured=structured)
        async with Client(model=model, builtins=False) as client:
            result = await way.ask(client, "go", output_type=Finding)
    assert (result.status, result.limit, result.output) == ("incomplete", "length", None)
    assert "risk" in result.text and not any(m.tool_calls for m in result.messages)


@each_way
@pytest.mark.parametrize("structured", ["native", "tool", "prompt"])
async def test_tools_run_before_the_answer(way: Way, structured: Any) -> None:
    """[TY-15] Calls come first, and an answer beside calls waits for their results."""
    given = json.loads(GOOD)
    answer = Turn(calls=[use("final_answer", given)]) if structured == "tool" else Turn(text=GOOD)
    early = (
        Turn(calls=[use("look", {"at": "b"}, "b"), use("final_answer", {"risk": 9}, "early")])
        if structured == "tool"
        else Turn(text='{"risk": 9}', calls=[use("look", {"at": "b"}, "b")])
    )
    turns = [Turn(calls=[use("look", {"at": "a"}, "a")]), early, answer]
    async with bench(way, {"main": turns}) as b:
        model = way.model(b.endpoint, structured=structured)
        async with Client(model=model, builtins=False, tools=[look]) as client:
            result = await way.ask(client, "go", output_type=Finding)
        sent = b.sent()
    assert (result.output, result.turns, result.tool_calls) == (Finding(risk=3, files=["a"]), 3, 2)
    assert [r.text for r in sent[2].results] == ["a is fine", "b is fine"]
    assert {c.name for c in sent[2].calls} == {"look"} and '{"risk": 9}' in sent[2].raw.replace('\\"', '"')


async def test_should_continue_sees_the_value() -> None:
    """[TY-16] And the answer after its nudge is checked anew, with a repair of its own."""
    seen: list[Any] = []

    def once(result: RunResult) -> bool:
        seen.append(result.output)
        return len(seen) == 1

    result, model = await asked(
        Finding, '{"risk": 10}', '{"risk": 1}', '{"risk": 11}', '{"risk": 2}', should_continue=once
    )
    assert seen == [Finding(risk=1), Finding(risk=2)] and result.output == Finding(risk=2)
    assert len(model.requests) == 4


@each_style
async def test_a_caller_reads_the_value_of_its_child_as_json(way: Way) -> None:
    """[TY-17] The whole value; a child that fails to give one is an error result that says why."""
    good = Agent(name="good", model="good", output_type=Finding)
    bad = Agent(name="bad", model="bad", output_type=Finding)
    turns = {
        "main": [Turn(calls=[task("good"), task("bad")]), Turn(text="one of two")],
        "good": [Turn(text='```json\n{"risk": 3}\n```')],
        "bad": [Turn(text='{"risk": "high"}'), Turn(text='{"risk": 77}')],
    }
    async with bench(way, turns, agents=[good, bad]) as b:
        result = await b.ask()
        sent = b.sent("main")
    first, second = [r.text for r in sent[1].results]
    assert json.loads(first) == {"risk": 3, "files": [], "note": None}
    assert second.startswith("agent 'bad' failed: ") and "risk: 77 does not meet maximum 9" in second
    assert [r.is_error for m in result.messages for r in m.tool_results] == [False, True]
    assert result.output == "one of two" and result.sub_agents[0].output == Finding(risk=3)
    assert [(c.status, c.turns) for c in result.sub_agents] == [("done", 1), ("error", 2)]


async def test_what_a_call_asks_for_holds_at_the_top_only() -> None:
    """[TY-18] A child without a type of its own answers with text."""
    model = ScriptedModel(
        by_path={
            "main": [reply("", call("task", agent="a", prompt="x", id="t")), GOOD],
            "main/*": ["just text"],
        }
    )
    agents = [Agent(name="a")]
    async with asyncio.timeout(PATIENCE), Client(model=model, builtins=False, agents=agents) as client:
        result = await client.ask("go", output_type=Finding)
    assert result.output == Finding(risk=3, files=["a"]) and result.sub_agents[0].output == "just text"
    assert [r.output is None for r in model.requests] == [False, True, False]


@pytest.mark.parametrize("structured", ["native", "tool", "prompt"])
@pytest.mark.parametrize("style", [OPENAI, ANTHROPIC])
async def test_a_conversation_goes_on_on_the_other_style(style: str, structured: Any) -> None:
    """[TY-19] Typed with a repair, then untyped and without tools, on either style."""
    first, other = Way(style), Way(ANTHROPIC if style == OPENAI else OPENAI)
    wrong, right = ({"risk": 12}, {"risk": 3})
    turns = [Turn(text=json.dumps(data)) for data in (wrong, right)]
    if structured == "tool":
        turns = [Turn(calls=[use("final_answer", data)]) for data in (wrong, right)]
    async with bench(first, {"main": [*turns, Turn(text="fine")], "other": [Turn(text="and here")]}) as b:
        model = first.model(b.endpoint, structured=structured)
        elsewhere = Agent(name="main", model=other.model(b.endpoint, name="other"))
        async with Client(model=model, builtins=False) as client:
            await client.ask("go", conversation="c", output_type=Finding)
            assert (await client.ask("and?", conversation="c")).output == "fine"
            await client.run(elsewhere, "and there?", conversation="c")
            messages = await client.conversation("c").messages()
        sent = b.sent()
    assert all(not m.tool_calls and not m.tool_results for m in messages)
    for request in sent[2:]:
        assert not request.tools and "json_schema" not in request.raw and "final_answer" not in request.raw
        assert "risk: 12 does not meet maximum 9" in request.raw


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_value_text_and_transcript_are_the_same_streamed_or_not(way: Way) -> None:
    """[TY-31] In the tool way too, and the deltas of each turn join to its text."""
    turns = [Turn(text="Let me answer.", calls=[use("final_answer", {"risk": n})]) for n in (12, 3)]
    async with bench(way, {"main": turns}) as b:
        events: list[Any] = []
        async with Client(model=way.model(b.endpoint, structured="tool"), builtins=False) as client:
            result = await way.ask(client, "go", events, output_type=Finding)
    assert result.output == Finding(risk=3) and result.turns == 2
    texts = [m.text for m in result.messages if m.role == "assistant"]
    assert [json.loads(t.removeprefix("Let me answer.")) for t in texts] == [{"risk": 12}, {"risk": 3}]
    if way.streamed:
        assert "".join([e.text for e in events if e.type == "text"]) == "".join(texts)


async def test_a_message_to_a_run_in_flight_comes_before_its_answer() -> None:
    """[TY-15] What is steered in while the model answers is read first."""

    def first(request: ModelRequest) -> str:
        client.steer("c", "a point, please")
        return GOOD

    model = ScriptedModel([first, GOOD])
    async with asyncio.timeout(PATIENCE), Client(model=model, builtins=False) as client:
        result = await client.ask("go", conversation="c", output_type=Finding)
    assert result.turns == 2 and model.requests[1].messages[-1] == Message(
        "user", (TextPart("a point, please"),)
    )


async def test_two_hundred_typed_asks_at_once_keep_their_values_apart() -> None:
    """[TY-10] Each has its own repair."""

    def answer(request: ModelRequest) -> str:
        wanted = int(request.messages[0].text)
        return json.dumps({"x": wanted if len(request.messages) > 1 else "x"})

    model = ScriptedModel([answer] * 400)
    async with asyncio.timeout(PATIENCE), Client(model=model, builtins=False) as client:
        results = await asyncio.gather(*(client.ask(str(n), output_type=Point) for n in range(200)))
    assert [r.output.x for r in results] == list(range(200))
