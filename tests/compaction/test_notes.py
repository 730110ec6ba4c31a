"""What the notes are made of, whose they are, and how long they are remembered."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.compaction.histories import batch, look
from toolnexus import (
    Agent,
    Client,
    FunctionModel,
    Hooks,
    MediaPart,
    Message,
    ModelContextError,
    ModelRequest,
    RunContext,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    compactor,
    user,
)
from toolnexus.core.messages import OpaquePart, ReasoningPart
from toolnexus.engine.compaction import compactor as module
from toolnexus.engine.compaction.size import estimate_tokens
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


async def noted(history: Sequence[Message], hook: Hooks) -> Message:
    """The message with which notes about `history` are asked for."""
    model = ScriptedModel(by_path={"main": ["ok"], "main/summary": ["notes"]})
    async with Client(model=model, builtins=False, hooks=[hook]) as client:
        assert (await client.ask([*history, user("and now?")])).text == "ok"
    (asked,) = [request for request in model.requests if request.path[-1] == "summary"]
    (message,) = asked.messages
    return message


async def test_each_part_of_what_goes_has_its_line() -> None:
    """[CMP-04] Text, calls, results, errors and files with who said them; no thinking, nothing blank, and no
    block that only its endpoint can read."""
    asks = ToolCallPart("a", "look", '{"q": "1"}')
    results = (
        ToolResultPart("a", "saw", media=(MediaPart("image/png", data="iVBORw0KGgo=", name="p.png"),)),
        ToolResultPart("b", "broke", is_error=True),
    )
    picture = MediaPart("image/webp", url="https://host/x.webp")
    message = await noted(
        [
            user("one"),
            Message(
                "assistant", (ReasoningPart("hm", "m"), OpaquePart("m", {"x": 1}), TextPart(" \n"), asks)
            ),
            Message("tool", results),
            user([TextPart("see"), picture, MediaPart("text/plain", data="eA==")]),
            assistant("seen"),
        ],
        compactor(4, count_tokens=len),
    )
    assert message.role == "user"
    assert message.text.split("\n\n") == [
        "[user] one",
        '[call a of look] {"q": "1"}',
        "[result of a] saw\n[file p.png image/png]\n[error of b] broke",
        "[user] see\n[file https://host/x.webp image/webp]\n[file  text/plain]",
        "[assistant] seen",
    ]


def worked(rounds: int, length: int) -> list[Message]:
    """So many rounds with a result of that length."""
    messages = [user("first words " + "w" * 5_000)]
    for n in range(rounds):
        messages += batch(n, "m")
        messages[-1] = Message("tool", (ToolResultPart(f"c{n}_0", f"{n}:" + "r" * length),))
    return messages


async def test_long_parts_are_cut_before_a_message_goes() -> None:
    """[CMP-04] As far as needed and no further, all but the first, which may be the notes so far."""
    message = await noted(worked(10, 3_000), compactor(4_000))
    assert 2_000 < estimate_tokens([message]) <= 4_000
    assert "first words " + "w" * 5_000 in message.text
    assert all(f"[result of c{n}_0] {n}:rrr" in message.text for n in range(9))
    assert message.text.count("characters left out") == 9 and "messages left out" not in message.text


async def test_what_is_too_long_for_one_request_is_told_by_its_ends() -> None:
    """[CMP-04] The first message and the newest, and how many are left out between them."""
    message = await noted(worked(60, 3_000), compactor(2_000))
    assert 1_000 < estimate_tokens([message]) <= 2_020
    first, gap, *rest = message.text.split("\n\n")
    assert first.startswith("[user] first words www") and "characters left out" in first
    assert rest[-1].startswith("[result of c59_0] 59:r")
    assert gap == f"[{2 * 60 - len(rest)} messages left out]" and 10 < len(rest) < 60


async def test_where_the_first_alone_is_too_long_it_alone_is_cut() -> None:
    """[CMP-04] All that came after it is told."""
    history = [user("first words " + "w" * 40_000), *batch(1, "m"), assistant("so it is")]
    message = await noted(history, compactor(2_000, keep_tail=0))
    first, *rest = message.text.split("\n\n")
    assert first.startswith("[user] first words www") and "characters left out" in first
    assert "messages left out" not in message.text and rest[-1] == "[assistant] so it is" and len(rest) == 3


async def test_notes_that_are_declined_are_none(caplog: pytest.LogCaptureFixture) -> None:
    """[CMP-07] What a model says that refuses is not taken for notes."""
    model = ScriptedModel(by_path={"main": ["ok"], "main/summary": [reply("I cannot", stop="refusal")]})
    history = [user("one"), *batch(1, "m"), *batch(2, "m"), user("two")]
    async with Client(model=model, builtins=False, hooks=[compactor(4, count_tokens=len)]) as client:
        await client.ask(history)
    assert "5 older messages were left out without notes" in model.requests[-1].messages[0].text
    assert "I cannot" not in model.requests[-1].messages[0].text
    assert "model 'scripted' declined to write a summary" in caplog.text


async def test_the_nearest_compactor_alone_shortens_what_was_refused() -> None:
    """[CMP-10] One that cannot make it shorter leaves that to nobody above."""
    calls: list[int] = []

    def model(request: ModelRequest) -> Message | str:
        if request.path == ("main",):
            return (
                "thanks" if request.turn > 1 else assistant("", call("task", id="t", agent="a", prompt="p"))
            )
        if request.turn < 4:
            return assistant("working", call("look", q=str(request.turn), id=f"c{request.turn}"))
        raise ModelContextError("too long", status=400)

    above = compactor(50_000, summarize=lambda m: calls.append(len(m)) or "notes")
    own = compactor(50_000, count_tokens=lambda m: 0)
    agents = [Agent(name="a", tools=[look], hooks=[own])]
    async with Client(model=FunctionModel(model), builtins=["task"], agents=agents, hooks=[above]) as client:
        result = await client.ask("go")
    (child,) = result.sub_agents
    assert (child.status, child.limit, child.text, calls) == ("incomplete", "context", "working", [])


async def test_a_compactor_inside_of_another_hook_acts() -> None:
    """[CMP-24] Whoever wraps one gets what it makes of a request."""
    inner = compactor(600, summarize=lambda m: "the notes")

    class Wrapped(Hooks):
        async def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelRequest | None:
            return await inner.before_model(ctx, request)  # type: ignore[misc]

    model = ScriptedModel([*[reply(call("look", q=str(n))) for n in range(8)], "end"])
    async with Client(model=model, builtins=False, tools=[look], hooks=[Wrapped()]) as client:
        await client.ask("find it")
    assert "the notes" in model.requests[-1].messages[0].text


async def test_a_request_that_is_translated_has_no_model_for_notes(caplog: pytest.LogCaptureFixture) -> None:
    """[CMP-07] It is shortened without; one that was refused, to the window that was named."""
    said = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"{n}" + "x" * 400} for n in range(9)]
    refused = ModelContextError("too long", status=400, window=800)
    model = ScriptedModel([refused, "fine"])
    async with Client(model=model, builtins=False, hooks=[compactor(100_000)]) as client:
        completion = await client.translate({"messages": said})
    assert completion["choices"][0]["message"]["content"] == "fine"
    whole, sent = [request.messages for request in model.requests]
    assert len(whole) == 9 and sent[-1] == whole[-1]
    assert "older messages were left out without notes" in sent[0].text and estimate_tokens(sent) <= 450
    assert "this run has no model to ask; give compactor(summarize=…)" in caplog.text


async def test_the_notes_that_nobody_used_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """[CMP-09] A compactor remembers a number of them: of a transcript that is another one none are used."""
    monkeypatch.setattr(module, "MOST_NOTES", 2)
    given: list[str] = []

    def summarize(messages: Sequence[Message]) -> str:
        given.append(messages[0].text)
        return f"notes of {messages[0].text}"

    model = FunctionModel(lambda request: request.messages[0].text)
    async with Client(
        model=model, builtins=False, hooks=[compactor(4, summarize=summarize, count_tokens=len)]
    ) as client:
        for name in ("a", "b", "a", "c", "c", "b", "a"):
            said = await client.ask([user(name), *batch(1, "m"), *batch(2, "m"), user("and now?")])
            assert said.text.endswith(f"notes of {name}")
    assert given == ["a", "b", "c", "a"]


@pytest.mark.parametrize("edit", ["shorter", "longer"])
async def test_a_transcript_that_a_hook_replaced_is_followed_from_its_beginning(edit: str) -> None:
    """[CMP-01] What is sent belongs to what the hooks before gave, and no word of the user in it is lost."""

    class Edits(Hooks):
        def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelRequest | None:
            if request.turn < 8:
                return None
            kept = request.messages[-4:] if edit == "shorter" else request.messages
            return replace(request, messages=[user("by the way"), *kept])

    given: list[list[Message]] = []
    hook = compactor(450, summarize=lambda m: given.append(list(m)) or "notes")
    model = ScriptedModel([*[reply(call("look", q=str(n))) for n in range(8)], "end"])
    async with Client(model=model, builtins=False, tools=[look], hooks=[Edits(), hook]) as client:
        result = await client.ask("find it")
    eighth = model.requests[7].messages
    assert given[0][0].text == "find it"
    if edit == "shorter":
        assert len(given) == 1
        assert eighth == (user("by the way"), *result.messages[11:15])
    else:
        assert [m.text for m in given[1][:2]] == ["by the way", "find it"] and len(given) == 2
        assert len(given[1]) + len(eighth) - 1 >= 16


async def test_files_in_results_go_when_there_is_no_room() -> None:
    """[CMP-11] With a line in their place; what is short stays as it is, long results beside it or not."""
    picture = MediaPart("image/png", data="iVBORw0KGgo=")
    for length in (3, 9_000):
        results = [
            ToolResultPart("a", "seen", media=(picture, picture)),
            ToolResultPart("b", "short"),
            ToolResultPart("c", "y" * length),
        ]
        calls = [ToolCallPart(id, "look") for id in "abc"]
        model = ScriptedModel(["ok"])
        async with Client(
            model=model, builtins=False, hooks=[compactor(2_000, summarize=lambda m: "notes")]
        ) as client:
            history = [user("go"), assistant("", *calls), Message("tool", tuple(results))]
            await client.ask(history)
        sent = model.requests[0].messages[-1].tool_results
        assert sent[0].output == "seen\n[2 images or files left out: there is no room for them]"
        assert not sent[0].media and sent[1] is results[1]
        assert sent[2].output == "yyy" if length == 3 else "characters left out" in sent[2].output


async def test_room_that_is_there_keeps_files() -> None:
    """[CMP-11] Long text goes first: a result with a picture keeps it while that is enough."""
    picture = MediaPart("image/png", data="iVBORw0KGgo=")
    results = (ToolResultPart("a", "seen", media=(picture,)), ToolResultPart("b", "y" * 9_000))
    calls = [ToolCallPart(id, "look") for id in "ab"]
    model = ScriptedModel(["ok"])
    async with Client(
        model=model, builtins=False, hooks=[compactor(3_000, summarize=lambda m: "notes")]
    ) as client:
        await client.ask([user("go"), assistant("", *calls), Message("tool", results)])
    sent = model.requests[0].messages[-1].tool_results
    assert sent[0] is results[0] and 1_000 < len(sent[1].output) < 3_000


def test_the_estimate_knows_every_part() -> None:
    """[CMP-32] Calls, thinking with what its endpoint signed, blocks of an endpoint, sounds and documents."""

    def tokens(*parts: Any) -> int:
        return estimate_tokens([Message("assistant", parts)]) - 4

    assert tokens(ToolCallPart("a", "n" * 40, "x" * 400)) == 4 + 10 + 100
    assert tokens(ReasoningPart("x" * 400, "m", {"signature": "s" * 400})) == 100 + 104
    assert tokens(ReasoningPart("x" * 400, "m")) == 100
    assert tokens(OpaquePart("m", {"data": "x" * 388})) == 100
    assert tokens(ToolResultPart("a", "x" * 400, media=(MediaPart("image/png", data="eA=="),))) == 4 + 1_700
    assert tokens(MediaPart("image/png", data="x" * 4_000)) == 1_600
    assert tokens(MediaPart("audio/wav", data="x" * 4_000)) == 1_620
    assert tokens(MediaPart("text/plain", data="x" * 4_000)) == 750
    assert tokens(MediaPart("application/pdf", url="https://host/a.pdf")) == 1_600
