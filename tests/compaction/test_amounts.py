"""How much: what messages are taken for, what a request for notes holds, what is cut, and where."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from toolnexus import (
    Client,
    Compacted,
    FunctionModel,
    MediaPart,
    Message,
    ModelContextError,
    ModelRequest,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    compactor,
    tool,
    user,
)
from toolnexus.core.messages import OpaquePart, Part, ReasoningPart
from toolnexus.engine.compaction.size import estimate_tokens
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

PNG = MediaPart("image/png", data="iVBORw0KGgo=")
PDF = MediaPart("application/pdf", data="JVBERi0x" * 100)
NOTE = MediaPart("text/plain", data="QUJD" * 100)
LARGE = MediaPart("image/png", data="iVBORw0KGgoA" * 100)
FAR = MediaPart("image/png", url="https://example.com/a.png")


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (TextPart("x" * 41), 10),
        (TextPart("x" * 40, {"a": "b" * 9}), 10 + len("{'a': 'bbbbbbbbb'}") // 4),
        (TextPart("\ud800" * 4), 3),
        (ReasoningPart("y" * 40, "m"), 10),
        (ToolCallPart("c", "n" * 8, "a" * 16), 4 + 2 + 4),
        (OpaquePart("m", {"k": "v" * 20}), len(str({"k": "v" * 20})) // 4),
        (ToolResultPart("c", "r" * 20), 4 + 5),
        (ToolResultPart("c", "r" * 20, media=(PNG, PDF)), 4 + 5 + 1_600 + 1_600 + 4),
        (PNG, 1_600),
        (FAR, 1_600),
        (LARGE, 1_600),
        (PDF, 1_600 + 800 // 200),
        (NOTE, 400 * 3 // 4 // 4),
    ],
)
def test_each_kind_of_part_has_its_amount(part: Part, tokens: int) -> None:
    """[CMP-32] Besides four tokens for the message itself."""
    assert estimate_tokens([Message("user", (part,))]) == 4 + tokens


def asked(model: ScriptedModel) -> ModelRequest:
    """The request for notes; there is one."""
    (request,) = [request for request in model.requests if request.path[-1] == "summary"]
    return request


async def notes_of(history: Sequence[Message], limit: int, **options: Any) -> ModelRequest:
    """What a model is asked that is to write the notes of `history`."""
    model = ScriptedModel(by_path={"main": ["ok"], "main/summary": ["notes"]}, name="m")
    async with Client(model=model, builtins=False, hooks=[compactor(limit, **options)]) as client:
        await client.ask([*history, user("and now")])
    return asked(model)


@pytest.mark.parametrize(("limit", "words"), [(400, 100), (4_000, 500), (40_000, 1_500)])
async def test_notes_may_be_as_long_as_an_eighth_of_the_limit(limit: int, words: int) -> None:
    """[CMP-04] At least a hundred words and at most 1,500; the request says whose it is."""
    history = [user("first"), assistant("z" * limit * 5), user("more"), assistant("short")]
    request = await notes_of(history, limit)
    assert f"At most {words} words" in request.system
    assert (request.agent, request.path, request.turn) == ("main", ("main", "summary"), 1)


async def test_notes_are_made_of_all_that_was_said_and_done() -> None:
    """[CMP-06] Texts with their roles, calls, results and errors, files by name or address; thinking and
    blanks are left out, long parts shown by two thirds of head and one of end."""
    named = MediaPart("image/png", data="iVBORw0KGgo=", name="cat.png")
    long = "h" * 3_000 + "t" * 3_000
    history = [
        user("first"),
        Message(
            "assistant", (ReasoningPart("hm", "m"), TextPart(" "), ToolCallPart("c1", "look", '{"q": 1}'))
        ),
        Message(
            "tool", (ToolResultPart("c1", "bad", is_error=True), ToolResultPart("c2", "ok", media=(named,)))
        ),
        Message("user", (TextPart("see"), FAR)),
        assistant(long),
        assistant("e" * 4_000),
        user("z" * 20_000),
        assistant("short"),
    ]
    text = (await notes_of(history, 5_000)).messages[0].text
    shown = "h" * 2_666 + f"\n[… {6_000 - 2_666 - 1_333} characters left out …]\n" + "t" * 1_333
    assert text.split("\n\n")[:6] == [
        "[user] first",
        '[call c1 of look] {"q": 1}',
        "[error of c1] bad\n[result of c2] ok\n[file cat.png image/png]",
        "[user] see\n[file https://example.com/a.png image/png]",
        f"[assistant] {shown}",
        f"[assistant] {'e' * 4_000}",
    ]


async def test_a_request_for_notes_stays_within_the_limit() -> None:
    """[CMP-04] Parts are cut to half and half again; where that is not enough, messages in the middle are
    left out, and their number is said."""
    history = [user("first"), *[assistant(f"{n:03}" + "z" * 3_000) for n in range(20)], assistant("end")]
    text = (await notes_of(history, 6_000)).messages[0].text
    assert estimate_tokens([user(text)]) <= 6_000 and "messages left out" not in text
    assert len(re.findall(r"\[assistant\] (\d\d\d)z", text)) == 20
    assert text.count(f"[… {3_003 - 666 - 333} characters left out …]") == 20

    history = [user("first " + "f" * 900), *[assistant(f"{n:03}" + "z" * 300) for n in range(60)]]
    text = (await notes_of([*history, assistant("end")], 1_000)).messages[0].text
    assert 600 < estimate_tokens([user(text)]) <= 1_000
    shown = [int(n) for n in re.findall(r"\[assistant\] (\d\d\d)z", text)]
    (left,) = re.findall(r"\[(\d+) messages left out\]", text)
    assert text.startswith("[user] first ffff") and shown == list(range(shown[0], 60))
    assert int(left) == shown[0] and len(shown) > 5
    first = text.split("\n\n")[0]
    assert "characters left out" not in first


async def test_results_are_cut_until_there_is_room_to_spare() -> None:
    """[CMP-11] The longest first, to half and half again, down to 200 characters and then without their
    files; what is sent then takes three quarters of the limit."""
    sent: list[list[ToolResultPart]] = []

    async def model(request: ModelRequest) -> Message:
        sent.append([result for message in request.messages for result in message.tool_results])
        if request.turn == 1:
            return assistant("", call("big", id="a"), call("small", id="b"))
        return assistant("end")

    @tool
    async def big() -> str:
        """Long."""
        return "a" * 8_000

    @tool
    async def small() -> str:
        """Short."""
        return "b" * 900

    for limit, most in ((1_400, 2_000), (800, 1_000), (500, 500), (250, 250), (180, 200)):
        sent.clear()
        hooks = [compactor(limit, summarize=lambda messages: "notes")]
        async with Client(
            model=FunctionModel(model), builtins=False, tools=[big, small], hooks=hooks
        ) as client:
            result = await client.ask("go")
        first, second = sent[-1]
        head, tail = "a" * (most * 2 // 3), "a" * (most // 3)
        left = 8_000 - len(head) - len(tail)
        assert first.output == f"{head}\n[… {left} characters left out …]\n{tail}"
        assert (second.output == "b" * 900) == (most >= 900)
        whole = result.messages[-2].tool_results
        assert [len(part.output) for part in whole] == [8_000, 900]


async def test_files_of_results_go_last() -> None:
    """[CMP-11] When results are as short as they get, their images are left out too, and that is said."""
    history = [
        user("go"),
        Message("assistant", (ToolCallPart("c", "look", "{}"),)),
        Message("tool", (ToolResultPart("c", "seen", media=(PNG, PNG)), ToolResultPart("d", "r" * 2_000))),
    ]
    sent: list[ModelRequest] = []

    async def model(request: ModelRequest) -> str:
        sent.append(request)
        return "end"

    async with Client(
        model=FunctionModel(model),
        builtins=False,
        hooks=[compactor(3_000, summarize=lambda messages: "notes")],
    ) as client:
        await client.ask(history)
    (seen, _) = sent[0].messages[-1].tool_results
    assert seen.output == "seen\n[2 images or files left out: there is no room for them]" and not seen.media


class Reader:
    """A model that reads at most so many messages, and says how many tokens that is or nothing."""

    def __init__(self, most: int, window: int | None = None) -> None:
        self.most, self.window = most, window
        self.sent: list[int] = []

    async def __call__(self, request: ModelRequest) -> str:
        self.sent.append(len(request.messages))
        if len(request.messages) > self.most:
            raise ModelContextError("too long", status=400, window=self.window)
        return "end"


@pytest.mark.parametrize(
    ("window", "most"),
    [(None, 20), (16, 12), (400, 20)],
    ids=["half of what was sent", "three quarters of the window", "the window is no help"],
)
async def test_what_was_refused_is_sent_at_half_its_length(window: int | None, most: int) -> None:
    """[CMP-20] Or at three quarters of the window that the endpoint names, whichever is less."""
    history = [assistant(f"{n}") if n % 2 else user(f"{n}") for n in range(39)]
    reader = Reader(most, window)
    hook = compactor(1_000, keep_tail=500, summarize=lambda messages: "notes", count_tokens=len)
    async with Client(model=FunctionModel(reader, name="m"), builtins=False, hooks=[hook]) as client:
        async with client.stream(history) as stream:
            (told,) = [event async for event in stream if isinstance(event, Compacted)]
        assert reader.sent == [39, told.after] and told.before == 39
        limit = 12 if window == 16 else 39 // 2
        assert told.after == limit // 4 + 1  # a quarter of what may be sent, and the notes
        reader.sent.clear()
        await client.ask(history)
    # what the endpoint said is known in the next run
    again = reader.sent
    assert (len(again) == 1) == (window == 16)


@pytest.mark.parametrize("gone", [9, 10])
async def test_less_than_a_tenth_is_not_worth_a_request(gone: int) -> None:
    """[CMP-04] Notes are asked for only when what goes is a tenth of the limit at least."""
    written: list[int] = []

    def summarize(messages: Sequence[Message]) -> str:
        written.append(len(messages))
        return "notes"

    def count(messages: Sequence[Message]) -> int:
        return sum(
            [int(message.text.split()[-1]) if message.text[-1:].isdigit() else 0 for message in messages]
        )

    history = [user("go 0"), assistant(f"old {gone}"), user("u 0"), assistant("new 92"), user("now 0")]
    hook = compactor(100, keep_tail=0, summarize=summarize, count_tokens=count)
    model: Callable[[ModelRequest], str] = lambda request: "end"  # noqa: E731
    async with Client(model=FunctionModel(model), builtins=False, hooks=[hook]) as client:
        await client.ask(history)
    assert bool(written) == (gone + 92 > 100)


async def test_long_notes_take_a_quarter_of_the_limit() -> None:
    """[CMP-07] What a summary writes beyond is cut, and that is shown."""
    history = [user("first"), *[assistant(f"{n}" + "z" * 400) for n in range(30)]]
    model = ScriptedModel(by_path={"main": ["ok"], "main/summary": ["n" * 40_000]})
    async with Client(model=model, builtins=False, hooks=[compactor(1_000)]) as client:
        await client.ask([*history, user("now")])
    head = model.requests[-1].messages[0].text
    notes = head.partition("stand for it:\n\n")[2]
    assert notes.endswith(" […]") and set(notes[:-4]) == {"n"}
    assert 980 <= len(notes) <= 1_004


async def test_a_refused_summary_is_none() -> None:
    """[CMP-07] A model that declines to write notes has written none."""
    history = [user("first"), *[assistant(f"{n}" + "z" * 400) for n in range(30)]]
    model = ScriptedModel(
        by_path={"main": ["ok"], "main/summary": [reply("I will not", stop="refusal")]}, name="m"
    )
    async with Client(model=model, builtins=False, hooks=[compactor(1_000)]) as client:
        await client.ask([*history, user("now")])
    head = model.requests[-1].messages[0].text
    assert "I will not" not in head and "older messages were left out without notes" in head
