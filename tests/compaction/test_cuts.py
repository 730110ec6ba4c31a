"""Wherever a transcript is cut, both styles accept what is left."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.compaction.histories import everything, last_request
from tests.loop.support import ANTHROPIC, OPENAI, PATIENCE, Way, bench, each_way, sent, use
from tests.models.test_types import accepted
from toolnexus import Agent, Client, Hooks, Message, ModelRequest, assistant, compactor, tool, user
from toolnexus.engine.compaction.parts import may_cut
from toolnexus.testing import ScriptedEndpoint, ScriptedModel, Turn, call

pytestmark = pytest.mark.anyio


def one_each(messages: Sequence[Message]) -> int:
    """Every message is one token, so that limits are numbers of messages."""
    return len(messages)


def by_messages(limit: int, keep: int) -> Hooks:
    return compactor(limit, keep_tail=keep, summarize=lambda m: "the notes", count_tokens=one_each)


@pytest.mark.exhaustive
@pytest.mark.parametrize("style", [OPENAI, ANTHROPIC])
async def test_every_cut_leaves_a_valid_request(style: str) -> None:
    """[CMP-01] [CMP-02] Whatever length a transcript has and however much of it is kept, the request is what
    its style and the official types accept, and the last words of the user are in it as they were."""
    way = Way(style)
    cut: set[int] = set()
    async with (
        asyncio.timeout(PATIENCE * 2),
        ScriptedEndpoint([Turn(text="ok")], repeat_last=True) as endpoint,
    ):
        model = way.model(endpoint)
        whole = everything(model.origin)
        ends = [n for n in range(3, len(whole) + 1) if whole[n - 1].role != "assistant"]
        async with Client(model=model, builtins=False, system_prompt="Be brief.") as client:
            for n in ends:
                for keep in range(n // 2 + 1):
                    agent = Agent(
                        name="a", system_prompt="Be brief.", hooks=[by_messages(max(2, 2 * keep), keep)]
                    )
                    result = await client.run(agent, whole[:n])
                    assert list(result.messages[:n]) == whole[:n], "the transcript itself stays whole"
                    request = sent(endpoint)[-1]
                    accepted(style, False, request.body)
                    assert request.system == "Be brief."
                    said = "\n".join(request.users)
                    assert all(line in said for line in last_request(whole[:n]).split("\n"))
                    if "the notes" in said:
                        cut.add(n)
                    endpoint.requests.clear()
    assert len(cut) > len(ends) / 2


def test_a_call_is_never_parted_from_its_results() -> None:
    """[CMP-02] A cut may fall before a user's message and before the first of the assistant's in a row, and
    nowhere else."""
    whole = everything("anthropic:x")
    places = [i for i in range(len(whole)) if may_cut(whole, i)]
    assert all(whole[i].role != "tool" for i in places)
    for i in places[1:]:
        open_calls = {c.id for m in whole[:i] for c in m.tool_calls} - {
            r.call_id for m in whole[:i] for r in m.tool_results
        }
        assert not open_calls
        assert (whole[i - 1].role, whole[i].role) != ("assistant", "assistant")
    assert len(places) > 12


async def test_unchanged_messages_are_the_same_objects() -> None:
    """[CMP-03] What is sent is notes and the transcript's own messages: nothing is copied, so nothing is
    encoded again."""
    whole = everything("scripted")
    model = ScriptedModel(["ok"])
    async with Client(model=model, builtins=False, hooks=[by_messages(8, 4)]) as client:
        result = await client.ask(whole)
    messages = model.requests[0].messages
    ours = {id(m) for m in result.messages}
    assert [id(m) in ours for m in messages] == [False, *[True] * (len(messages) - 1)]
    assert messages[0].role == "user" and "the notes" in messages[0].text
    assert messages[-1] is whole[-1] and len(messages) < 10


async def test_a_nudge_is_no_request_of_the_user() -> None:
    """[CMP-01] What the user asked stays verbatim also when the run was told to go on afterwards."""
    model = ScriptedModel([f"part {i}" for i in range(8)])
    hook = by_messages(6, 3)
    async with Client(
        model=model, builtins=False, hooks=[hook], should_continue=lambda r: r.turns < 8
    ) as client:
        await client.ask([user("the one thing I want"), user("please")])
    for request in model.requests[4:]:
        texts = [m.text for m in request.messages if m.role == "user"]
        assert texts[1:3] == ["the one thing I want", "please"] and "the notes" in texts[0]


@each_way
async def test_a_live_run_with_thinking_and_parallel_calls_is_valid_in_every_turn(way: Way) -> None:
    """[CMP-02] Thinking, parallel calls and cuts again and again: every request is what its style accepts,
    and thinking goes back with its calls or not at all."""

    @tool
    async def look(q: str) -> str:
        """Look at something."""
        return f"saw {q} " + "x" * 200

    def turn(n: int) -> Turn:
        calls = [use("look", {"q": f"{n}.{i}"}, f"c{n}_{i}") for i in range(1 + n % 4)]
        if way.style == ANTHROPIC:
            return Turn(thinking=(f"hm {n}", f"sig{n}"), text=f"round {n}", calls=calls)
        return Turn(reasoning=f"hm {n}", text=f"round {n}", calls=calls)

    hook = compactor(900, summarize=lambda m: "the notes")
    turns = [*[turn(n) for n in range(40)], Turn(text="the end")]
    async with bench(way, {"main": turns}, tools=[look], hooks=[hook], max_turns=50) as b:
        result = await b.ask("find it")
        assert result.text == "the end" and len(result.messages) == 82
        noted = 0
        for seen, request in zip(b.endpoint.requests, b.sent(), strict=True):
            accepted(way.style, way.streamed, seen.body)
            assert any("find it" in text for text in request.users)
            assert request.raw.count("hm ") == request.raw.count("round ")
            noted += "the notes" in request.users[0]
        assert noted > 20


async def test_what_the_user_said_on_the_way_stays_with_what_the_run_began_with() -> None:
    """[CMP-01] Of what was said during a run the newest is kept beside the first request; what was said
    between them is in the notes."""
    given: list[str] = []

    def summarize(messages: Sequence[Message]) -> str:
        given.extend(m.text for m in messages)
        return "the notes"

    def answer(request: ModelRequest) -> Message | str:
        if request.turn in (3, 6):
            client.steer("t", f"hint {request.turn}")
        if request.turn < 20:
            return assistant("", call("look", id=f"c{request.turn}"))
        return "the end"

    @tool
    async def look() -> str:
        """Look."""
        return "x" * 300

    model = ScriptedModel([answer] * 20)
    hook = compactor(500, summarize=summarize)
    async with Client(model=model, builtins=False, tools=[look], hooks=[hook], max_turns=30) as client:
        await client.ask("find it", conversation="t")
    last = [m.text for m in model.requests[-1].messages if m.role == "user"]
    assert last[1:] == ["find it", "hint 6"] and "the notes" in last[0]
    assert "hint 3" in given
