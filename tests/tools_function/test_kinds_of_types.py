"""Every kind of type in a signature, where annotations are strings: described, and built for the function."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import ipaddress
import json
import typing
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableSequence, Sequence, Set
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypeVar,
)

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel
from typing_extensions import TypedDict

import toolnexus
from toolnexus import ConfigError, ToolContext, Toolkit, tool
from toolnexus.tools.function import FunctionTool

pytestmark = pytest.mark.anyio

T = TypeVar("T")
UserId = NewType("UserId", int)


class Color(enum.Enum):
    RED = "red"
    TWO = 2


class Level(enum.IntEnum):
    LOW = 1


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0
    tags: list[str] = dataclasses.field(default_factory=list[str])


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    name: str
    kids: list[Tree] = dataclasses.field(default_factory=list["Tree"])


class Person(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, alias="fullName")]
    home: Point | None = None


class Linked(BaseModel):
    value: int
    next: Linked | None = None


class Box(BaseModel, Generic[T]):
    item: T


class Numbers(RootModel[list[int]]):
    pass


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    bark: str


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


class Pair(NamedTuple):
    a: int
    b: str = "x"


class Whole(TypedDict):
    a: int
    b: NotRequired[str]


class Partly(TypedDict, total=False):
    a: Required[int]
    when: datetime.date


DAY = datetime.date(2024, 1, 2)
MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")

KINDS: list[tuple[Any, Any, Any]] = [
    (Literal["a", 1, None], 1, 1),
    (Color, 2, Color.TWO),
    (Level, "1", Level.LOW),
    (Rights, 3, Rights.READ | Rights.WRITE),
    (Point, {"x": "1"}, Point(1)),
    (Tree, {"name": "a", "kids": [{"name": "b"}]}, Tree("a", [Tree("b")])),
    (
        Person,
        {"fullName": "Ada", "home": {"x": 1}},
        Person.model_validate({"fullName": "Ada", "home": Point(1)}),
    ),
    (Linked, {"value": 1, "next": {"value": "2"}}, Linked(value=1, next=Linked(value=2))),
    (Box[int], {"item": "3"}, Box[int](item=3)),
    (Numbers, [1, "2"], Numbers([1, 2])),
    (Pet, {"kind": "dog", "bark": "wuff"}, Dog(kind="dog", bark="wuff")),
    (list[Pet], [{"kind": "cat", "lives": "9"}], [Cat(kind="cat", lives=9)]),
    (Pair, [1, "b"], Pair(1, "b")),
    (Whole, {"a": "1"}, {"a": 1}),
    (Partly, {"a": 1, "when": "2024-01-02"}, {"a": 1, "when": DAY}),
    (UserId, "3", 3),
    (Optional[UserId], None, None),  # noqa: UP045
    (datetime.date, "2024-01-02", DAY),
    (datetime.datetime, "2024-01-02T03:04:05Z", MOMENT),
    (datetime.time, "03:04", datetime.time(3, 4)),
    (datetime.timedelta, "P1DT2H", datetime.timedelta(days=1, hours=2)),
    (uuid.UUID, str(ID), ID),
    (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
    (Path, "a/b", Path("a/b")),
    (bytes, "abc", b"abc"),
    (ipaddress.IPv4Address, "1.2.3.4", ipaddress.IPv4Address("1.2.3.4")),
    (set[int], ["1", 2], {1, 2}),
    (frozenset[Color], ["red"], frozenset({Color.RED})),
    (tuple[int, str], ["1", "a"], (1, "a")),
    (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
    (tuple[()], [], ()),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (dict[Color, list[Point]], {"red": [{"x": 1}]}, {Color.RED: [Point(1)]}),
    (Mapping[str, datetime.date], {"a": "2024-01-02"}, {"a": DAY}),
    (collections.defaultdict[str, int], {"a": "1"}, collections.defaultdict(int, a=1)),
    (collections.deque[int], [1], collections.deque([1])),
    (Sequence[int], ["1"], [1]),
    (MutableSequence[int], [1], [1]),
    (Set[int], [1], frozenset({1})),
    (Annotated[int, Field(ge=1, le=5), "how many"], "3", 3),
    (int | str, "5", "5"),
    (list[int] | None, "[1]", [1]),
    (float, 1, 1.0),
    (Any, {"a": 1}, {"a": 1}),
    (object, [1], [1]),
    (None, None, None),
]


def taking(hint: Any) -> tuple[FunctionTool[..., Any], list[Any]]:
    """A function with one parameter of this type, and what it was called with."""
    seen: list[Any] = []

    def take(value: Any) -> None:
        seen.append(value)

    take.__annotations__ = {"value": hint}
    return tool(thread=False)(take), seen


@pytest.mark.parametrize(("hint", "sent", "value"), KINDS, ids=[str(hint)[-40:] for hint, _, _ in KINDS])
async def test_a_value_arrives_as_its_type(hint: Any, sent: Any, value: Any) -> None:
    """[FN-10] [FIL-40] It has a schema that endpoints take, and what a model sends is built from it."""
    take, seen = taking(hint)
    (declaration,) = Toolkit([take]).to_openai()
    text = json.dumps(declaration, allow_nan=False)
    assert "$ref" not in text and "#/$defs" not in text
    result = await Toolkit([take]).execute("take", {"value": sent})
    assert not result.is_error, result.output
    assert seen == [value] and type(seen[0]) is type(value)


LAZY: list[Any] = [
    Iterable[int],
    Iterator[int],
    Collection[int],
    typing.Iterable[int],
    typing.Collection[int],
    list[Iterable[int]],
    Iterable[int] | None,
]


@pytest.mark.parametrize("hint", LAZY, ids=str)
async def test_what_can_be_iterated_arrives_as_a_list(hint: Any) -> None:
    """[FIL-41] Checked before the function runs, not while it goes through it."""
    take, seen = taking(hint)
    nested = hint == list[Iterable[int]]
    good, bad = ([["1", 2]], [[1, "x"]]) if nested else (["1", 2], [1, "x"])
    assert not (await Toolkit([take]).execute("take", {"value": good})).is_error
    assert seen == [[[1, 2]] if nested else [1, 2]]
    refused = await Toolkit([take]).execute("take", {"value": bad})
    assert 'expected integer, got "x"' in refused.output and len(seen) == 1


async def test_a_bare_iterable_is_a_list_of_anything() -> None:
    """[FIL-41] Without a word on its items."""
    take, seen = taking(Iterable)
    assert take.input_schema["properties"]["value"] == {"items": {}, "type": "array"}
    await Toolkit([take]).execute("take", {"value": ["a", 1]})
    assert seen == [["a", 1]]


def test_defaults_are_json_or_left_out() -> None:
    """[FN-02] [FIL-42] Also infinities, not-a-numbers, objects inside of lists: a request must be able to
    carry them."""

    def odd(
        a: float = float("inf"),
        b: float = float("nan"),
        c: list[Any] = [1, {2}],  # noqa: B006
        d: Any = object(),  # noqa: B008
        e: datetime.date = DAY,
        f: Point = Point(1),  # noqa: B008
        g: bytes = b"\xff",
        h: dict[str, float] = {"x": float("inf")},  # noqa: B006
        i: Color = Color.RED,
        j: Path = Path("p"),
        k: tuple[int, ...] = (1, 2),
    ) -> None:
        """Odd."""

    shown = tool(odd).input_schema["properties"]
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    defaults = {name: node.get("default", "none") for name, node in shown.items()}
    assert defaults == {
        **dict.fromkeys("abdgh", "none"),
        "c": [1, [2]],
        "e": "2024-01-02",
        "f": {"x": 1, "y": 0.0, "tags": []},
        "i": "red",
        "j": "p",
        "k": [1, 2],
    }
    assert "required" not in tool(odd).input_schema


class Service:
    """A class with tools of every kind."""

    start = 5

    @tool
    def decorated(self, n: int) -> int:
        """Add."""
        return self.start + n

    @tool
    @staticmethod
    def fixed(n: int) -> int:
        """Give it back."""
        return n

    @classmethod
    def of_class(cls, n: int) -> str:
        """Name the class."""
        return f"{cls.__name__} {n}"

    @staticmethod
    def plain(n: int) -> int:
        """Give it back."""
        return n

    async def later(self, ctx: ToolContext, n: int) -> str:
        """Tell where."""
        return f"{ctx.call_id} {n}"

    def __call__(self, n: int) -> int:
        return n * 2


SERVICE = Service()
CALLABLES: list[tuple[Callable[[], FunctionTool[..., Any]], str]] = [
    (lambda: SERVICE.decorated, "8"),
    (lambda: SERVICE.fixed, "3"),
    (lambda: Service.fixed, "3"),
    (lambda: tool(SERVICE.of_class), "Service 3"),
    (lambda: tool(Service.of_class), "Service 3"),
    (lambda: tool(SERVICE.plain), "3"),
    (lambda: tool(SERVICE.later), "call_1 3"),
    (lambda: tool(name="double")(SERVICE), "6"),
    (lambda: tool(functools.partial(SERVICE.decorated)), "8"),
    (lambda: tool(functools.partial(lambda base, n: base + n, 10), name="added"), "13"),  # type: ignore[call-overload]
]


@pytest.mark.parametrize("made", range(len(CALLABLES)))
async def test_methods_of_every_kind_are_tools(made: int) -> None:
    """[FN-29] [FIL-43] Of an instance, of a class, static, async, bound in part; objects that are called."""
    make, output = CALLABLES[made]
    found = make()
    assert list(found.input_schema["properties"]) == ["n"]
    result = await Toolkit([found]).execute(found.name, {"n": 3})
    assert (result.output, result.is_error) == (output, False)


def first(ctx: ToolContext, a: int) -> str:
    return f"{ctx.call_id} {a}"


def last(a: int, ctx: ToolContext) -> str:
    return first(ctx, a)


def optional(a: int, ctx: Optional[ToolContext] = None) -> str:  # noqa: UP045
    assert ctx is not None
    return first(ctx, a)


def either(a: int, ctx: ToolContext | None = None) -> str:
    return optional(a, ctx)


def keyword(*, ctx: Annotated[ToolContext, "who calls"], a: int = 1) -> str:
    return first(ctx, a)


def qualified(a: int, ctx: toolnexus.ToolContext) -> str:
    return first(ctx, a)


def quoted(a: "int", ctx: "ToolContext") -> "str":  # noqa: UP037
    return first(ctx, a)


def twice(a: int, ctx: ToolContext, again: ToolContext) -> str:
    assert ctx is again
    return first(ctx, a)


def positional(ctx: ToolContext, a: int, /) -> str:
    return first(ctx, a)


@pytest.mark.parametrize("fn", [first, last, optional, either, keyword, qualified, quoted, twice, positional])
async def test_the_context_may_stand_anywhere(fn: Callable[..., str]) -> None:
    """[FN-05] [FIL-40] First, last, optional, keyword-only, positional-only, annotated, twice: filled in and
    never shown."""
    found = tool(fn)
    assert list(found.input_schema["properties"]) == ["a"]
    assert (await Toolkit([found]).execute(fn.__name__, {"a": "1"})).output == "call_1 1"


def test_keywords_without_names_are_refused_when_decorating() -> None:
    """[FN-06] Also when a typed dict says which there may be."""

    def anything(a: int, **rest: int) -> None: ...
    def typed(**rest: typing.Unpack[Whole]) -> None: ...  # type: ignore[misc]

    refused: list[Callable[..., None]] = [anything, typed]
    for fn in refused:
        with pytest.raises(
            ConfigError, match=r"function '(anything|typed)': parameter .*\*\*rest.*name each"
        ):
            tool(fn)


async def test_a_parameter_with_a_name_that_endpoints_refuse_works() -> None:
    """[FIL-34] Python allows letters that endpoints do not: shown under a safe name, given under its own."""

    @tool
    def measure(größe: int, ß: str = "x") -> str:
        """Measure."""
        return f"{größe} {ß}"

    (declaration,) = Toolkit([measure]).to_anthropic()
    assert list(declaration["input_schema"]["properties"]) == ["gr__e", "_"]
    assert declaration["input_schema"]["required"] == ["gr__e"]
    kit = Toolkit([measure])
    assert (await kit.execute("measure", {"gr__e": "3", "_": "y"})).output == "3 y"
    assert (await kit.execute("measure", {"größe": 4})).output == "4 x"


async def test_everything_that_is_wrong_is_told_at_once() -> None:
    """[FN-14] [FIL-44] What the schema refuses, and what only the type knows, each field once."""

    @tool
    def book(
        day: datetime.date, where: Path, seats: Annotated[int, Field(ge=1)], day2: datetime.date
    ) -> None:
        """Book."""

    result = await Toolkit([book]).execute(
        "book", {"day": "2024-13-02", "where": 3, "seats": 0, "day2": "2024-01-02"}
    )
    lines = result.output.split("\n- ")[1:]
    assert lines[:2] == ["where: expected string, got 3", "seats: 0 does not meet minimum 1"]
    assert len(lines) == 3 and lines[2].startswith('day: "2024-13-02" is refused: ')


async def test_four_blocking_tools_take_the_time_of_one() -> None:
    """[FN-25] [FIL-45] Each waits until all four have begun, on daemon threads, while the loop goes on."""
    import threading

    all_in, ticks = threading.Barrier(4), 0

    @tool
    def wait(n: int) -> bool:
        """Wait for the others."""
        all_in.wait(10)
        return threading.current_thread().daemon

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async with asyncio.timeout(20):
        ticker = asyncio.create_task(tick())
        results = await asyncio.gather(*(Toolkit([wait]).execute("wait", {"n": n}) for n in range(4)))
        ticker.cancel()
    assert [r.output for r in results] == ["true"] * 4 and ticks > 1
