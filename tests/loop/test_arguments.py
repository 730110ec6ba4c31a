"""What a model sends as arguments, names and ids, and what it is told."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pytest

from tests.loop.support import OPENAI, WAYS, Way, bench, each_way, paired, use
from toolnexus import tool
from toolnexus.core.events import ToolFinished, ToolStarted
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio


class Probe:
    """A tool that keeps what it was called with."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

        @tool
        async def probe(count: int = 0, name: str = "", tags: list[str] | None = None) -> str:
            """Probe.

            Args:
                count: How many.
                name: What it is called.
                tags: Words.
            """
            self.seen.append((count, name, tags))
            return "probed"

        self.tool = probe


WRONG = [
    ('{"count": 1', "not valid JSON.*character 11"),
    ('{"count": 1} and more', "not valid JSON.*character 13"),
    ('{"count": NaN}', "not valid JSON"),
    ("[1, 2]", r"must be one JSON object, not array: \[1, 2\]"),
    ('"count"', 'must be one JSON object, not string: "count"'),
    ("null", "must be one JSON object, not null"),
    ('{"cuont": 1}', "cuont: unknown; allowed: count, name, tags; did you mean 'count'"),
    ('{"count": "three"}', 'count: expected integer, got "three"'),
    ('{"tags": "x"}', "tags: expected array or null"),
]


def as_written(way: Way, args: str) -> Any:
    """Arguments are text, but in a whole Anthropic reply a JSON value; null is none there.

    Raises `ValueError` for a text that cannot stand there.
    """
    if way.streamed or way.style == OPENAI:
        return args
    if args == "null":
        raise ValueError(args)

    def refuse(name: str) -> None:
        raise ValueError(name)

    return json.loads(args or "{}", parse_constant=refuse)


def parsed(args: str) -> Any:
    """The object that `args` is, or None."""
    try:
        value = as_written(Way("anthropic"), args)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def can_write(way: Way, args: str) -> bool:
    try:
        as_written(way, args)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("way", "args", "told"),
    [
        pytest.param(way, args, told, id=f"{way}-{args}")
        for way in WAYS
        for args, told in WRONG
        if can_write(way, args)
    ],
)
async def test_wrong_arguments_are_told_and_never_run(way: Way, args: str, told: str) -> None:
    """[RUN-10] Malformed, no object, or against the schema: the tool does not run, the next request tells the
    model where and what is allowed, and the loop goes on."""
    probe = Probe()
    calls = [use("probe", as_written(way, args), "c1"), use("probe", {"count": 5}, "c2")]
    turns = [Turn(calls=calls), Turn(text="end")]
    async with bench(way, {"main": turns}, tools=[probe.tool]) as b:
        result = await b.ask()
        wrong, right = b.sent()[1].results
    assert re.search(told, wrong.text, re.DOTALL), wrong.text
    assert right.text == "probed" and probe.seen == [(5, "", None)]
    assert result.status == "done" and result.messages[2].tool_results[0].is_error
    if way.streamed:
        started = [e.arguments for e in b.events if isinstance(e, ToolStarted)]
        assert started == [parsed(args), {"count": 5}]


@each_way
@pytest.mark.parametrize("args", ["", "{}", " {} "])
async def test_empty_arguments_are_an_empty_object(way: Way, args: str) -> None:
    """[RUN-10] Models write nothing for a tool without arguments."""
    probe = Probe()
    turns = [Turn(calls=[use("probe", as_written(way, args))]), Turn(text="end")]
    async with bench(way, {"main": turns}, tools=[probe.tool]) as b:
        await b.ask()
        assert b.sent()[1].calls[0].arguments == {}
    assert probe.seen == [(0, "", None)]


@each_way
async def test_strings_are_read_only_where_the_schema_leaves_no_other_reading(way: Way) -> None:
    """[RUN-11] "3" is 3 for an integer and stays "3" for a string; a list written as text is a list; the
    transcript keeps what the model wrote."""
    probe = Probe()
    written = {"count": "3", "name": "3", "tags": '["a", "b"]'}
    async with bench(
        way, {"main": [Turn(calls=[use("probe", written)]), Turn(text="end")]}, tools=[probe.tool]
    ) as b:
        await b.ask()
        assert b.sent()[1].calls[0].arguments == written
    assert probe.seen == [(3, "3", ["a", "b"])]


@each_way
async def test_an_unknown_tool_gets_the_nearest_names(way: Way) -> None:
    """[RUN-12] Nothing runs, nothing is guessed, and the loop goes on."""
    probe = Probe()
    turns = [Turn(calls=[use("porbe", {"count": 1}), use("launch")]), Turn(text="end")]
    async with bench(way, {"main": turns}, tools=[probe.tool]) as b:
        result = await b.ask()
        near, far = b.sent()[1].results
    assert "unknown tool 'porbe'" in near.text and "did you mean 'probe'" in near.text
    assert "unknown tool 'launch'" in far.text and "['probe']" in far.text and "did you mean" not in far.text
    assert probe.seen == [] and result.status == "done"
    assert result.tool_calls == 0


@each_way
async def test_call_ids_are_unique_and_paired_in_the_whole_conversation(way: Way) -> None:
    """[RUN-13] Ids that are repeated in a turn, in every turn and in every ask, missing, too long or of odd
    characters: each call runs, each has its own result, and every request is valid."""
    probe = Probe()
    long, odd = "call_" + "x" * 90, "functions.probe:0"

    def calling(first: int, *ids: str | None) -> Turn:
        return Turn(calls=[use("probe", {"count": first + n}, id) for n, id in enumerate(ids)])

    turns = [
        calling(0, "call_0", "call_0", None),
        calling(3, "call_0", long, odd),
        Turn(text="end"),
        calling(6, "call_0", long, odd, None),
        calling(10, "call_0"),
        Turn(text="end"),
        calling(11, "call_0"),
        Turn(text="end"),
    ]
    async with bench(way, {"main": turns}, tools=[probe.tool]) as b:
        for _ in range(3):
            result = await b.ask(conversation="t")
            assert result.status == "done" and paired(result.messages)
        last = b.sent()[-1]
    assert [count for count, _, _ in probe.seen] == list(range(12))
    assert [call.arguments["count"] for call in last.calls] == list(range(12))
    assert len({call.id for call in last.calls}) == 12
    if way.streamed:
        finished = [e.call_id for e in b.events if isinstance(e, ToolFinished)]
        assert len(set(finished)) == 12
