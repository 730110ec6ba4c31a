"""Hundreds of rounds: what is sent and what is done for it stay bounded."""

from collections.abc import Sequence

import pytest

from toolnexus import (
    Client,
    FunctionModel,
    MediaPart,
    Message,
    ModelRequest,
    TextPart,
    assistant,
    compactor,
    tool,
    user,
)
from toolnexus.engine.compaction.size import estimate_tokens
from toolnexus.testing import call

pytestmark = pytest.mark.anyio

ROUNDS = 300


@tool
async def look(q: str) -> str:
    """Look at something."""
    return f"saw {q}: " + "x" * 400


async def test_three_hundred_rounds_stay_bounded() -> None:
    """[CMP-30] What is sent in any of three hundred rounds stays near the limit, every message is counted
    once and summarised once, and the late turns cost no more of either than the early ones."""
    sizes: list[int] = []
    counted: list[int] = []
    noted: list[int] = []

    def count(messages: Sequence[Message]) -> int:
        counted.append(len(messages))
        return estimate_tokens(messages)

    def summarize(messages: Sequence[Message]) -> str:
        noted.append(len(messages))
        return f"notes {len(noted)} " + "n" * 600

    def model(request: ModelRequest) -> Message | str:
        sizes.append(estimate_tokens(request.messages))
        if request.turn > ROUNDS:
            return "the end"
        return assistant("", call("look", q=str(request.turn), id=f"c{request.turn}"))

    limit = 4_000
    hook = compactor(limit, summarize=summarize, count_tokens=count)
    async with Client(
        model=FunctionModel(model), builtins=False, tools=[look], hooks=[hook], max_turns=ROUNDS + 1
    ) as client:
        result = await client.ask("find it")
    assert (result.text, len(result.messages)) == ("the end", 2 * ROUNDS + 2)
    assert max(sizes) <= limit * 1.1
    assert min(sizes[ROUNDS // 2 :]) > limit // 8, "something of the run is always there"
    # each message once, and for each notes: the notes twice (bounded, in the head), the head
    assert sum(counted) <= 2 * ROUNDS + 1 + 5 * len(noted)
    assert len(noted) < ROUNDS / 8 and sum(noted) <= 2 * ROUNDS + 3 * len(noted)
    assert max(noted) < 80, "no summary reads the run from its beginning"


async def test_a_run_below_the_limit_is_left_alone() -> None:
    """[CMP-31] Below the limit a request is the transcript itself, and each message is counted once."""
    counted: list[int] = []
    sent: list[int] = []

    def count(messages: Sequence[Message]) -> int:
        counted.append(len(messages))
        return 1

    def model(request: ModelRequest) -> Message | str:
        sent.append(id(request.messages))
        if request.turn > 50:
            return "the end"
        return assistant("", call("look", q=str(request.turn), id=f"c{request.turn}"))

    hook = compactor(1_000, count_tokens=count)
    async with Client(
        model=FunctionModel(model), builtins=False, tools=[look], hooks=[hook], max_turns=60
    ) as client:
        await client.ask("find it")
    assert len(set(sent)) == 1 and counted == [1] * 101


def test_the_estimate_goes_by_bytes_and_files() -> None:
    """[CMP-32] Without a counter four bytes of UTF-8 are a token, and an image 1,600."""
    assert estimate_tokens([user("x" * 4_000)]) == 1_004
    assert estimate_tokens([user("字" * 400)]) == 304
    picture = MediaPart("image/png", data="iVBORw0KGgo=")
    assert estimate_tokens([user([TextPart("see"), picture])]) == 1_604
    assert estimate_tokens([user("a"), user("b")]) == 8
