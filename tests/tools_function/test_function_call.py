"""Calling a Python function as a tool: its arguments, its context, where it runs."""

import asyncio
import contextvars
import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import json
import threading
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from toolnexus.core.messages import ToolCallPart
from toolnexus.core.tools import Tool
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.arguments import check_arguments
from toolnexus.tools.function import FunctionTool, tool
from toolnexus.tools.invoke import detached
from toolnexus.tools.toolkit import Toolkit

pytestmark = pytest.mark.anyio


class Color(enum.Enum):
    RED = "red"
    TWO = 2


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


class Person(BaseModel):
    name: str
    home: Point | None = None


class Size(TypedDict):
    width: int


def context(fn: Tool, arguments: dict[str, Any] | None = None) -> ToolContext:
    call = ToolCallPart("call_7", fn.name, json.dumps(arguments or {}))
    return ToolContext(context=detached(), call=call, tool=fn, arguments=arguments or {})


def typed(fn: FunctionTool[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    assert fn.validate is not None
    return fn.validate(arguments)


def refused(fn: FunctionTool[..., Any], arguments: dict[str, Any]) -> list[str]:
    with pytest.raises(ToolError) as caught:
        typed(fn, arguments)
    assert "pydantic" not in str(caught.value)
    return str(caught.value).split("\n- ")[1:]


async def output(fn: FunctionTool[..., Any], **arguments: Any) -> str:
    result = await Toolkit([fn]).execute(fn.name, arguments)
    assert not result.is_error, result.output
    return result.output


async def test_a_tool_is_still_the_function() -> None:
    """[FN-01] Called with Python values it runs the function itself, unchecked, sync or async."""

    @tool
    def double(value: Any, times: int = 2) -> Any:
        """Double."""
        return value * times

    @tool
    async def later(n: int) -> int:
        """Later."""
        return n + 1

    assert double("ab") == "abab"
    assert double([1], times=3) == [1, 1, 1]
    assert await later(1) == 2
    assert str(inspect.signature(later)) == "(n: int) -> int"


async def test_arguments_arrive_as_the_types_that_the_hints_name() -> None:
    """[FN-10] Enum members, dataclasses, models, dates, tuples, sets and decimals arrive built."""
    seen: list[Any] = []

    @tool
    async def take(
        color: Color,
        points: list[Point],
        person: Person,
        size: Size,
        day: datetime.date,
        pair: tuple[int, str],
        tags: set[str],
        price: decimal.Decimal,
        ratio: float,
        by_color: dict[Color, int],
        where: Path,
    ) -> None:
        """Take."""
        seen.extend([color, points, person, size, day, pair, tags, price, ratio, by_color, where])

    await output(
        take,
        color="red",
        points=[{"x": 1}, {"x": 2, "y": 3}],
        person={"name": "Ada", "home": {"x": 5}},
        size={"width": 3},
        day="2024-05-06",
        pair=[1, "a"],
        tags=["b", "b"],
        price="1.50",
        ratio=3,
        by_color={"red": 1},
        where="a/b",
    )
    assert seen == [
        Color.RED,
        [Point(1), Point(2, 3.0)],
        Person(name="Ada", home=Point(5)),
        {"width": 3},
        datetime.date(2024, 5, 6),
        (1, "a"),
        {"b"},
        decimal.Decimal("1.50"),
        3.0,
        {Color.RED: 1},
        Path("a/b"),
    ]
    assert type(seen[8]) is float


def test_what_was_not_given_stays_away() -> None:
    """[FN-10] The function's own defaults hold, untouched; one inside a `Field(…)` is filled in."""
    marker = object()

    @tool
    def find(q: str = "x", odd: Any = marker, limit: int = Field(4, ge=1), color: Color = Color.RED) -> None:
        """Find."""

    assert typed(find, {}) == {"limit": 4}
    assert typed(find, {"odd": 1, "color": 2}) == {"odd": 1, "limit": 4, "color": Color.TWO}


def test_strings_are_coerced_as_for_any_tool() -> None:
    """[FN-11] Numbers, flags and JSON in strings reach their types, also inside records."""

    @tool
    def find(
        n: int, ok: bool, point: Point, tags: list[int], either: int | str, maybe: Point | None = None
    ) -> None:
        """Find."""

    arguments = {
        "n": "3",
        "ok": "true",
        "point": '{"x": "4", "y": "1.5"}',
        "tags": "[1, 2.0]",
        "either": "5",
        "maybe": "null",
    }
    before = json.dumps(arguments)
    assert typed(find, arguments) == {
        "n": 3,
        "ok": True,
        "point": Point(4, 1.5),
        "tags": [1, 2],
        "either": "5",
        "maybe": None,
    }
    assert json.dumps(arguments) == before


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"n": True}, "n: expected integer, got true"),
    ({"n": 1.5}, "n: expected integer, got 1.5"),
    ({"n": None}, "n: expected integer, got null"),
    ({"s": 3}, "s: expected string, got 3"),
    ({"b": 1}, "b: expected boolean, got 1"),
    ({"b": "yes"}, 'b: expected boolean, got "yes"'),
    ({"f": "fast"}, 'f: expected number, got "fast"'),
    ({"c": "green"}, 'c: expected one of "red", 2, got "green"'),
    ({"p": {"y": 1}}, "p.x: required, but missing"),
    ({"p": {"x": 1, "z": 1}}, "p.z: unknown; allowed: x, y"),
    ({"t": ["a", "x"]}, 't[1]: expected one of "a", "b", got "x"'),
    ({"positive": 0}, "positive: 0 does not meet exclusiveMinimum 0"),
    ({"point": {}}, "point: unknown; allowed: n, s, b, f, c, p, t, positive, day; did you mean 'positive'?"),
]


@tool
def strict(
    n: int = 0,
    s: str = "",
    b: bool = False,
    f: float = 0,
    c: Color = Color.RED,
    p: Point | None = None,
    t: list[Literal["a", "b"]] = [],  # noqa: B006
    positive: Annotated[int, Field(gt=0)] = 1,
    day: datetime.date | None = None,
) -> None:
    """Strict."""


@pytest.mark.parametrize(("arguments", "line"), WRONG)
def test_nothing_else_is_converted(arguments: dict[str, Any], line: str) -> None:
    """[FN-13] What is neither valid nor one JSON value in a string is refused, field by field."""
    if "p" in arguments:
        assert refused(strict, arguments)[0].startswith(line)
    else:
        assert refused(strict, arguments) == [line]


@pytest.mark.parametrize("arguments", [a for a, _ in WRONG])
def test_typed_tools_and_schema_tools_refuse_in_the_same_words(arguments: dict[str, Any]) -> None:
    """[FN-15] A function and a foreign tool with its schema accept and refuse alike."""
    twin = Tool(strict.name, "", strict.input_schema, strict.execute)
    with pytest.raises(ToolError) as foreign:
        check_arguments(twin, arguments)
    with pytest.raises(ToolError) as own:
        typed(strict, arguments)
    assert str(own.value) == str(foreign.value)


def test_what_only_the_types_know_is_explained_too() -> None:
    """[FN-14] Formats and validators of the types speak for themselves, with path and value."""

    def even(n: int) -> int:
        if n % 2:
            raise ValueError("must be even")
        return n

    def broken(n: int) -> int:
        raise KeyError("bug")

    def own(n: int) -> int:
        raise ToolError("ask for something else")

    @tool
    def find(
        ns: list[Annotated[int, AfterValidator(even)]] = [],  # noqa: B006
        bad: Annotated[int, AfterValidator(broken)] = 0,
        mine: Annotated[int, AfterValidator(own)] = 0,
        when: datetime.date | datetime.timedelta | None = None,
        letters: Annotated[str, Field(pattern=r"^\p{L}+$")] = "x",
    ) -> None:
        """Find."""

    assert refused(find, {"ns": [2, 3]}) == ["ns[1]: 3 is refused: Value error, must be even"]
    assert refused(find, {"bad": 1}) == ["KeyError: 'bug'"]
    [line] = refused(find, {"letters": "1"})
    assert line.startswith('letters: "1" is refused: String should match pattern')
    [line] = refused(find, {"when": "soon"})
    assert line.startswith('when: "soon" is refused: ')
    assert " / " in line
    with pytest.raises(ToolError, match=r"^ask for something else$"):
        typed(find, {"mine": 1})


def test_values_that_a_host_built_itself_pass() -> None:
    """[FN-10] A host that calls the check with built values gets them through."""

    @tool
    def find(color: Color, day: datetime.date) -> None:
        """Find."""

    values = {"color": Color.TWO, "day": datetime.date(2024, 1, 2)}
    assert typed(find, values) == values


async def test_the_context_is_given_to_every_parameter_of_its_type() -> None:
    """[FN-05] The context is filled in whatever the parameter is called; a model cannot set it."""

    @tool
    async def find(q: str, here: ToolContext, also: ToolContext | None = None) -> str:
        """Find."""
        return f"{q} {here.call_id} {here is also}"

    ctx = context(find)
    assert await find.execute({"q": "x"}, ctx) == "x call_7 True"
    assert refused(find, {"q": "x", "here": {}}) == ["here: unknown; allowed: q"]


async def test_positional_only_parameters_are_given_by_position() -> None:
    """[FN-29] `/` in a signature works, with gaps, defaults and context in front."""

    @tool
    async def pos(ctx: ToolContext, a: int, b: int = 2, /, c: int = 3, *, d: int = 4) -> Any:
        """Pos."""
        return [ctx.call_id, a, b, c, d]

    assert await pos.execute(typed(pos, {"a": 9, "d": 7}), context(pos)) == '["call_7",9,2,3,7]'


class Counter:
    """Counts things."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, by: int) -> int:
        """Add."""
        self.count += by
        return self.count

    @tool(name="step", thread=False)
    def one(self, times: int = 1) -> int:
        """Step."""
        return self.add(times)

    async def __call__(self, n: int) -> int:
        return n * 2


async def test_methods_partials_and_callable_objects_are_functions_too() -> None:
    """[FN-29] Bound methods, decorated methods, partials and callables work as tools."""
    counter, other = Counter(), Counter()
    assert await output(tool(counter.add), by="5") == "5"
    assert counter.one.name == "step"
    assert await output(counter.one, times=2) == "7"
    assert await output(other.one) == "1"
    assert counter.one(3) == 10
    assert await output(tool(name="double")(counter), n=4) == "8"

    async def base(a: int, b: int) -> int:
        """Base."""
        return a * 10 + b

    assert await output(tool(functools.partial(base, b=7)), a=1) == "17"


async def test_an_async_function_runs_on_the_loop_and_a_sync_one_in_a_thread() -> None:
    """[FN-25] Only sync functions leave the loop's thread, unless `thread=False`."""

    def where() -> str:
        """Where."""
        return threading.current_thread().name

    async def here() -> str:
        """Here."""
        return threading.current_thread().name

    @functools.wraps(here)
    def wrapped() -> Any:
        return here()

    main = threading.current_thread().name
    assert await output(tool(where)) != main
    assert await output(tool(thread=False)(where)) == main
    assert await output(tool(here)) == main
    assert await output(tool(wrapped)) == main


async def test_a_thread_sees_the_context_variables_of_the_call() -> None:
    """[FN-25] Context variables reach a sync function; what it sets stays there."""
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")

    @tool
    def who() -> str:
        """Who."""
        before = user.get()
        user.set("changed")
        return before

    user.set("ada")
    assert await output(who) == "ada"
    assert user.get() == "ada"


async def test_sync_tools_run_at_once_and_never_hold_the_loop() -> None:
    """[FN-25] Four blocking tools are all inside at once, and only the ticking loop lets them go."""
    inside: list[int] = []
    let_go = threading.Event()

    @tool
    def block(n: int) -> int:
        """Block."""
        inside.append(n)
        assert let_go.wait(10)
        return n

    async def tick() -> None:
        while len(inside) < 4:
            await asyncio.sleep(0)
        let_go.set()

    toolkit = Toolkit([block])
    async with asyncio.timeout(20):
        ticker = asyncio.create_task(tick())
        results = await asyncio.gather(*(toolkit.execute("block", {"n": n}) for n in range(4)))
        await ticker
    assert [r.output for r in results] == ["0", "1", "2", "3"]


async def test_cancelling_leaves_at_once_and_tells_the_function() -> None:
    """[FN-28] A cancelled call raises at once; its function sees `ctx.cancelled` and can stop."""
    started, stopped, release = threading.Event(), threading.Event(), threading.Event()

    @tool
    def dig(ctx: ToolContext) -> str:
        """Dig."""
        started.set()
        release.wait(10)
        if ctx.cancelled:
            stopped.set()
        return "dug"

    ctx = context(dig)

    async def call() -> Any:
        return await dig.execute({}, ctx)

    task = asyncio.create_task(call())
    async with asyncio.timeout(20):
        await asyncio.to_thread(started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not stopped.is_set()
        release.set()
        assert await asyncio.to_thread(stopped.wait, 10)


async def test_the_call_has_no_arguments_and_none_are_needed() -> None:
    """[FN-10] A tool without parameters takes `{}` and refuses anything else."""

    @tool
    async def ping() -> str:
        """Ping."""
        return "pong"

    assert await output(ping) == "pong"
    assert ping.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert refused(ping, {"x": 1}) == ["x: unknown; allowed: nothing"]
