"""The builtin `todowrite`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call, output
from toolnexus import Agent, Client, FunctionModel, Message, ModelRequest, assistant, testing
from toolnexus.core.events import ToolFinished
from toolnexus.errors import ToolError
from toolnexus.tools.builtin.loader import definition

pytestmark = pytest.mark.anyio


def todo(name: str, text: str = "work", completed: bool = False) -> dict[str, Any]:
    return {"id": name, "text": text, "completed": completed}


async def test_a_list_comes_back_as_one_line_per_item(tmp_path: Path) -> None:
    """[BT-190] `[x] text` when completed, else `[ ] text`, in the order given; the metadata hold the list."""
    todos = [todo("b", "Write\n the  tests", True), todo("a", "Rünn them")]
    result = await call("todowrite", tmp_path, todos=todos)
    assert result.output == "[x] Write the tests\n[ ] Rünn them"
    assert result.metadata == {"todos": todos}
    assert not result.is_error


async def test_an_empty_list_is_a_sentence(tmp_path: Path) -> None:
    """[BT-191] An empty list is allowed and says that it is empty."""
    result = await call("todowrite", tmp_path, todos=[])
    assert (result.output, result.metadata) == ("The list is empty.", {"todos": []})


LIMITS = definition("todowrite").limits


@pytest.mark.parametrize(
    ("todos", "reason"),
    [
        ([todo("a"), todo("b"), todo("a")], "two todos have the id 'a'"),
        ([todo("a", " \n ")], "todo 'a' has no text"),
        ([todo("a", "x" * (LIMITS["maxTextCharacters"] + 1))], "has 501 characters; at most 500"),
        ([todo("i" * (LIMITS["maxIdCharacters"] + 1))], "at most 100 characters"),
        ([todo(str(n)) for n in range(LIMITS["maxTodos"] + 1)], "101 todos; a list has at most 100"),
    ],
)
async def test_a_list_that_cannot_be_kept_is_an_error(
    todos: list[dict[str, Any]], reason: str, tmp_path: Path
) -> None:
    """[BT-192] Ids are used once, every item has a text, number and lengths are bounded."""
    with pytest.raises(ToolError, match=reason):
        await call("todowrite", tmp_path, todos=todos)


async def test_the_largest_list_is_kept(tmp_path: Path) -> None:
    """[BT-192] The bounds themselves are allowed."""
    todos = [
        todo(str(n).rjust(LIMITS["maxIdCharacters"], "-"), "x" * LIMITS["maxTextCharacters"])
        for n in range(LIMITS["maxTodos"])
    ]
    assert (await output("todowrite", tmp_path, todos=todos)).count("\n") == LIMITS["maxTodos"] - 1


async def test_lists_of_parent_and_child_are_their_own() -> None:
    """[BT-193] A child writes the same ids without a word to or from the list of its parent."""
    ours, theirs = [todo("1", "ours")], [todo("1", "theirs", True)]

    def parent(request: ModelRequest) -> Message | str:
        steps = [
            testing.call("todowrite", todos=ours),
            testing.call("task", agent="helper", prompt="go"),
            testing.call("todowrite", todos=ours),
        ]
        return assistant("", steps[request.turn - 1]) if request.turn <= len(steps) else "end"

    def child(request: ModelRequest) -> Message | str:
        if request.turn == 1:
            assert "ours" not in str(request.messages)
            return assistant("", testing.call("todowrite", todos=theirs))
        return "done"

    written: list[tuple[tuple[str, ...], object]] = []
    agent = Agent(name="helper", model=FunctionModel(child))
    async with (
        asyncio.timeout(10),
        Client(model=FunctionModel(parent), builtins=["todowrite"], agents=[agent]) as client,
        client.stream("go") as events,
    ):
        async for event in events:
            if isinstance(event, ToolFinished) and event.name == "todowrite":
                written.append((tuple(event.path), event.result.metadata["todos"]))
    (first, before), (inner, between), (last, after) = written
    assert before == after == ours and between == theirs
    assert first == last and len(inner) > len(first)
    assert "theirs" not in str(events.result.messages)
