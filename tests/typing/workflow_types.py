"""What type checkers infer of workflows, without any annotation: held by `make check`."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, assert_type

from toolnexus import Agent, RunContext
from toolnexus.workflow import (
    SCRATCHPAD,
    AgentStep,
    FanOut,
    Fn,
    Loop,
    ModelRunner,
    Node,
    Parallel,
    Scratchpad,
    Sequential,
    Slot,
    Switch,
    with_runner,
)


@dataclass
class Finding:
    """A typed answer."""

    risk: int


def split(text: str) -> list[str]:
    return text.split()


async def measure(word: str) -> int:
    return len(word)


def total(numbers: list[int], ctx: RunContext) -> int:
    return sum(numbers)


agent = Agent(name="a")

assert_type(Fn(split), Fn[str, list[str]])
assert_type(Fn(measure), Fn[str, int])
assert_type(Fn(total), Fn[list[int], int])
assert_type(AgentStep(agent), AgentStep[str])
assert_type(AgentStep(agent, output_type=Finding), AgentStep[Finding])
assert_type(AgentStep(agent, output_type={"type": "object"}), AgentStep[Any])
assert_type(AgentStep(agent, output_type=list[int]), AgentStep[list[int]])
assert_type(Parallel(Fn(measure), Fn(split)), Parallel[str, list[int | list[str]]])
assert_type(FanOut(Parallel(Fn(measure), Fn(measure))), FanOut[Iterable[str], list[list[int]]])
assert_type(Switch(len, {1: Fn(measure), 2: Fn(split)}), Switch[str, int | list[str]])
assert_type(Sequential(Fn(split), FanOut(Fn(measure)), Fn(total)), Sequential[str, int])


async def outputs(ctx: RunContext) -> None:
    """What comes out, as a caller sees it."""
    assert_type(await Parallel(Fn(measure), Fn(measure)).run("a", ctx), list[int])
    assert_type(
        await Parallel(Fn(measure), Fn(measure), on_error="collect").run("a", ctx), list[int | Exception]
    )
    assert_type(await FanOut(Fn(measure)).run(["a"], ctx), list[int])
    assert_type(await FanOut(AgentStep(agent, output_type=Finding)).run(["a"], ctx), list[Finding])
    assert_type(await FanOut(Fn(measure), on_error="collect").run(["a"], ctx), list[int | Exception])
    assert_type(await Sequential(AgentStep(agent, output_type=Finding), Fn(str)).run("a", ctx), str)
    assert_type(await with_runner(Fn(measure), ModelRunner("openai:gpt-5-mini")).run("a", ctx), int)
    assert_type(await Switch(len, {1: Fn(measure)}).run("a", ctx), int)
    assert_type(await Loop(Fn(str.strip), bool, max_rounds=2).run("a", ctx), str)


def slots(pad: Scratchpad, ctx: RunContext) -> None:
    """Slots are typed by what they hold."""
    assert_type(pad.get(Slot("n", int)), int | None)
    assert_type(ctx.get(SCRATCHPAD), Any | None)


any_node: Node[str, int] = Fn(measure)
wrong: Node[int, int] = Fn(measure)  # pyright: ignore[reportAssignmentType]
Sequential(Fn(split), Fn(measure))  # pyright: ignore[reportArgumentType]
Sequential(FanOut(Fn(measure), on_error="collect"), Fn(total))  # pyright: ignore[reportArgumentType]
Loop(Fn(measure), bool, max_rounds=2)  # pyright: ignore[reportArgumentType]
many: list[Node[Any, Any]] = [Fn(str.strip)] * 9
Sequential(*many)
