"""Functions of a module whose annotations are strings."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any, Literal

import pytest

from toolnexus.errors import ConfigError
from toolnexus.tools.function import tool
from toolnexus.tools.toolkit import Toolkit

if TYPE_CHECKING:
    from decimal import Decimal

    from toolnexus.runtime.context import ToolContext

pytestmark = pytest.mark.anyio


@dataclasses.dataclass
class Point:
    x: int


@tool
def draw(p: Point, ctx: ToolContext, tags: list[Literal["a", "b"]] = []) -> str:  # noqa: B006
    """Draw."""
    return f"{p!r} {tags} {ctx.call_id}"


@tool
def early(later: Later) -> str:
    """Uses a class that is defined further down."""
    return later.word


@dataclasses.dataclass
class Later:
    word: str


async def test_string_annotations_lose_no_types() -> None:
    """[FN-04] Nested types are described, arguments arrive typed, the context stays hidden."""
    assert draw.input_schema["properties"] == {
        "p": {"$ref": "#/$defs/Point"},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": []},
    }
    result = await Toolkit([draw]).execute("draw", {"p": {"x": "3"}, "tags": '["a"]'})
    assert (result.output, result.is_error) == ("Point(x=3) ['a'] call_1", False)


async def test_a_type_defined_later_is_found() -> None:
    """[FN-04] What is not defined yet when decorating is looked up when the schema is built."""
    assert (await Toolkit([early]).execute("early", {"later": {"word": "hi"}})).output == "hi"


async def test_local_types_are_found_where_the_function_is_defined() -> None:
    """[FN-04] Types that exist only inside the function around it are resolved, for methods too."""

    class Size(enum.Enum):
        BIG = "big"

    @dataclasses.dataclass
    class Box:
        size: int

    @tool
    def pack(box: Box, size: Size = Size.BIG) -> str:
        """Pack."""
        return f"{type(box).__name__} {box.size} {size.name}"

    class Packer:
        Label = Literal["x", "y"]

        @tool
        def label(self, box: Box, text: Label) -> str:
            """Label."""
            return f"{box.size} {text}"

    toolkit = Toolkit([pack, Packer().label])
    assert (await toolkit.execute("pack", {"box": {"size": 2}, "size": "big"})).output == "Box 2 BIG"
    assert (await toolkit.execute("label", {"box": {"size": 2}, "text": "y"})).output == "2 y"
    assert (await toolkit.execute("label", {"box": {"size": 2}, "text": "z"})).is_error


def test_a_name_that_only_type_checkers_know_is_explained() -> None:
    """[FN-08] An unresolvable annotation is a ConfigError at build that names function and parameter."""

    @tool
    def pay(to: str, amount: Decimal) -> None:
        """Pay."""

    with pytest.raises(
        ConfigError, match="function 'pay': the type of parameter 'amount' cannot be found"
    ) as caught:
        _ = pay.input_schema
    assert "Decimal" in str(caught.value)


def test_the_context_needs_no_import_at_run_time() -> None:
    """[FN-05] `ToolContext` imported for type checkers only is recognised by its name."""

    @tool
    def where(ctx: ToolContext | None = None) -> Any:
        """Where."""

    assert where.input_schema["properties"] == {}
