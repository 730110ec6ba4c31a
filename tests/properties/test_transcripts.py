"""A transcript is valid after whatever happened to its runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loop.support import paired
from toolnexus import (
    Answer,
    Client,
    FunctionModel,
    MemoryStore,
    Message,
    ModelError,
    ModelRequest,
    RunError,
    RunResult,
    Suspended,
    ToolCallPart,
    ToolContext,
    ToolResult,
    ToolResultPart,
    assistant,
    pending,
    tool,
    user,
)
from toolnexus.core.messages import close_transcript

IDS = [f"c{n}" for n in range(6)]
SAID = st.lists(
    st.one_of(
        st.text(max_size=3).map(user),
        st.lists(st.sampled_from(IDS), max_size=3, unique=True).map(
            lambda ids: assistant("a", *[ToolCallPart(id, "work") for id in ids])
        ),
        st.lists(st.tuples(st.sampled_from(IDS), st.integers(0, 9)), max_size=3).map(
            lambda results: Message("tool", tuple([ToolResultPart(id, str(n)) for id, n in results]))
        ),
    ),
    max_size=12,
)


def once(messages: Sequence[Message]) -> list[Message]:
    """The same with ids that no other turn has, as transcripts are: later calls of an id are gone."""
    seen: set[str] = set()
    out: list[Message] = []
    for message in messages:
        calls = [c for c in message.tool_calls if c.id not in seen]
        seen.update(c.id for c in calls)
        out.append(assistant("a", *calls) if message.role == "assistant" else message)
    return out


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(SAID, st.dictionaries(st.sampled_from(IDS), st.just("known"), max_size=2))
def test_closing_answers_every_call_once_in_order_and_changes_nothing_else(
    said: list[Message], known: dict[str, str]
) -> None:
    """[ROB-03] Closing is idempotent; each call has one result, directly behind and in call order; what is no
    result stays as it is; a result that came is kept, and none is made up beside it."""
    messages = once(said)
    given = {id: ToolResultPart(id, text) for id, text in known.items()}
    closed = close_transcript(messages, "gone", given)
    assert close_transcript(closed, "again") == closed
    assert [m for m in closed if m.role != "tool"] == [m for m in messages if m.role != "tool"]
    assert paired(closed)
    came: dict[str, list[str]] = {}
    called: set[str] = set()
    for message in messages:
        called.update(c.id for c in message.tool_calls)
        for result in message.tool_results:
            if result.call_id in called:
                came.setdefault(result.call_id, []).append(result.output)
    for message in closed:
        for result in message.tool_results:
            if result.call_id in came:
                assert result.output in (*came[result.call_id], known.get(result.call_id))
            else:
                expected = (known[result.call_id], False) if result.call_id in known else ("gone", True)
                assert (result.output, result.is_error) == expected


TURNS = st.lists(st.sampled_from(["work", "fail", "ask", "no tool", "no json"]), max_size=3)
"""The calls of a turn; none: the run ends."""
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "cancel", "answer", "answer twice", "give up"]),
        st.integers(0, 25),
        st.lists(TURNS, max_size=3),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
"""What is done, a cancel after so many steps of the loop, what the model then wants, and whether it fails."""


class Talk:
    """One conversation that things happen to."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.turns: list[list[str]] = []
        self.fails = False
        self.pending: RunResult | None = None
        self.made = 0

    async def model(self, request: ModelRequest) -> Message:
        assert paired(request.messages), request.messages
        await asyncio.sleep(0)
        if not self.turns:
            if self.fails:
                raise ModelError("the model fails")
            return assistant("end")
        calls: list[ToolCallPart] = []
        for name in self.turns.pop(0):
            self.made += 1
            text = "{" if name == "no json" else "{}"
            calls.append(
                ToolCallPart(f"id{self.made}", "work" if name == "no json" else name.replace(" ", "_"), text)
            )
        return assistant("turn", *calls)

    def client(self) -> Client:
        @tool
        async def work() -> str:
            """Work."""
            await asyncio.sleep(0)
            return "worked"

        @tool
        async def fail() -> str:
            """Fail."""
            raise ValueError("no")

        @tool
        async def ask(ctx: ToolContext) -> Any:
            """Ask."""
            return pending(kind="question", prompt="?") if ctx.answer is None else ToolResult(output="asked")

        model = FunctionModel(self.model)
        return Client(model=model, tools=[work, fail, ask], builtins=False, store=self.store)

    async def step(self, client: Client, what: str, after: int) -> None:
        if what in ("answer", "answer twice") and self.pending is not None:
            answers = [Answer(id=request.id) for request in self.pending.pending]
            for _ in range(2 if what == "answer twice" else 1):
                await self.end(client.resume("t", answers), None)
        elif what == "give up":
            await client.conversation("t").discard_pending()
            self.pending = None
        else:
            await self.end(client.ask("go", conversation="t"), after if what == "cancel" else None)

    async def end(self, run: Any, after: int | None) -> None:
        """Let it run, or cancel it after so many steps."""
        asking = asyncio.ensure_future(run)
        if after is not None:
            for _ in range(after):
                await asyncio.sleep(0)
            asking.cancel()
        try:
            result: RunResult = await asking
        except (asyncio.CancelledError, ModelError, RunError, Suspended):
            return
        self.pending = result if result.status == "pending" else None


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(STEPS)
def test_a_conversation_is_valid_after_whatever_happened_to_it(
    steps: list[tuple[str, int, list[list[str]], bool]],
) -> None:
    """[ROB-04] Asks, failures, questions, answers, equal answers again, cancels and discarded waits in any
    order: every request and everything stored is valid, what was stored stays, the conversation goes on."""

    async def run() -> None:
        talk = Talk()
        async with asyncio.timeout(20), talk.client() as client:
            kept: tuple[Message, ...] = ()
            for what, after, turns, talk.fails in steps:
                talk.turns = [list(turn) for turn in turns]
                await talk.step(client, what, after)
                messages, _ = await talk.store.load("t")
                assert await talk.store.load_state("t") is not None or paired(messages)
                assert [m for m in messages if m.role != "tool"][: len(kept)] == list(kept)
                kept = tuple([m for m in messages if m.role != "tool"])
            talk.turns, talk.fails = [], False
            await client.conversation("t").discard_pending()
            assert (await client.ask("go on", conversation="t")).text == "end"
            messages, _ = await talk.store.load("t")
            assert paired(messages)

    asyncio.run(run())
