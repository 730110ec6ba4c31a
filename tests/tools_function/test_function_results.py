"""What a Python function gives or raises as a tool."""

import datetime
import decimal
import enum
from pathlib import Path
from typing import Any

import pytest

from tests.tools_function.test_function_call import Color, Person, Point, output
from toolnexus.core.tools import ToolResult, pending
from toolnexus.tools.function import tool
from toolnexus.tools.toolkit import Toolkit

pytestmark = pytest.mark.anyio


class Weird:
    pass


RESULTS: list[tuple[Any, str]] = [
    ("plain text", "plain text"),
    ("", ""),
    (Color.RED, '"red"'),
    (enum.StrEnum("Kind", ["A"]).A, '"a"'),  # type: ignore[attr-defined]
    (3, "3"),
    (True, "true"),
    (None, "null"),
    ({"a": [1, "ü"]}, '{"a":[1,"ü"]}'),
    (Point(1), '{"x":1,"y":0.0}'),
    ([Person(name="Ada")], '[{"name":"Ada","home":null}]'),
    (datetime.datetime(2024, 1, 2, 3, 4), '"2024-01-02T03:04:00"'),
    (Path("a/b"), '"a/b"'),
    ({1}, "[1]"),
    (b"text", '"text"'),
    (b"\xff", '"_w=="'),
    (float("nan"), '"NaN"'),
    ({Color.RED: decimal.Decimal("1.5")}, '{"red":"1.5"}'),
    ((1, "a"), '[1,"a"]'),
]


@pytest.mark.parametrize(("value", "text"), RESULTS, ids=[repr(v)[:30] for v, _ in RESULTS])
async def test_what_a_function_returns_becomes_text(value: Any, text: str) -> None:
    """[FN-26] Text as it is, everything else as JSON, None as `null`."""

    @tool
    async def give() -> Any:
        """Give."""
        return value

    assert await output(give) == text


async def test_a_function_without_a_value_says_that_it_is_done() -> None:
    """[FN-26] `-> None` reads `done`, because there a `null` would look like "nothing found"."""

    @tool
    def save(x: int) -> None:
        """Save."""

    assert await output(save, x=1) == "done"


async def test_a_value_that_json_cannot_hold_is_a_failed_result() -> None:
    """[FN-26] An object of no known kind, or one that holds itself, is an error result."""
    loop: list[Any] = []
    loop.append(loop)
    for value in (Weird(), {"a": Weird()}, loop):

        @tool
        def give() -> Any:
            """Give."""
            return value  # noqa: B023

        result = await Toolkit([give]).execute("give")
        assert result.is_error
        assert "'give' ran, but gave a" in result.output


async def test_a_tool_result_passes_whole() -> None:
    """[FN-26] A ToolResult, a question included, is handed on untouched."""
    given = ToolResult(output="x", metadata={"k": 1})
    question = pending(kind="question", prompt="Sure?")

    @tool
    async def give(ask: bool) -> ToolResult:
        """Give."""
        return question if ask else given

    assert await give.execute({"ask": False}, None) is given
    assert await give.execute({"ask": True}, None) is question


@pytest.mark.parametrize("thread", [True, False])
async def test_exceptions_come_out_as_they_are(thread: bool) -> None:
    """[FN-27] What the function raises is raised by `execute`, from a thread too."""

    @tool(thread=thread)
    def fail(text: str) -> None:
        """Fail."""
        raise ZeroDivisionError(text)

    with pytest.raises(ZeroDivisionError, match=r"^boom$"):
        await fail.execute({"text": "boom"}, None)
