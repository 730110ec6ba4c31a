"""Whom an agent may delegate to: the same vocabulary over the registry."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from tests.filters.test_name_filter import FILTERS, NAMES
from tests.filters.tree import Trials, tried
from toolnexus import (
    Agent,
    Client,
    ConfigError,
    FunctionModel,
    Message,
    ModelRequest,
    NameConflict,
    Runnable,
    ToolContext,
    assistant,
    tool,
)
from toolnexus.engine.scope import Targets
from toolnexus.testing import call
from toolnexus.tools.filters import NameFilter

pytestmark = pytest.mark.anyio

OTHERS = [Agent(name=name, tools=[]) for name in ("deploy", "explore", "exploit", "review")]


async def reached(agents: Any, *names: str) -> list[str]:
    """Whom an agent with these `agents` reaches when it tries `names` and all others."""
    others = sorted({*(o.name for o in OTHERS), *names})

    def reply(request: ModelRequest) -> Message | str:
        if request.agent == "a" and request.turn == 1:
            return assistant("", *(call("task", agent=name, prompt="p") for name in others))
        return "ok"

    async with Client(
        model=FunctionModel(reply), builtins=False, agents=[Agent(name="a", agents=agents), *OTHERS]
    ) as client:
        result = await client.run("a", "go")
    return [child.path[-1].partition(".")[0] for child in result.sub_agents]


@pytest.mark.parametrize(
    ("agents", "names"),
    [
        (None, ["deploy", "explore", "exploit", "review"]),
        (True, ["deploy", "explore", "exploit", "review"]),
        ({}, ["deploy", "explore", "exploit", "review"]),
        (False, []),
        ([], []),
        (["expl*"], ["explore", "exploit"]),
        (["review", "nobody*"], ["review"]),
        ({"expl*": True, "exploit": False}, ["explore"]),
        ({"deploy": False, "r*": False}, ["explore", "exploit"]),
    ],
    ids=repr,
)
async def test_agents_are_filtered_like_tools(agents: Any, names: list[str]) -> None:
    """[FIL-08] A bool, a list of names and globs, `{name: bool}`: whoever is left out is refused."""
    assert sorted(await reached(agents)) == sorted(names)


async def test_a_list_holds_names_globs_and_agents() -> None:
    """[FIL-08] Agents beside names, with no need to be registered."""
    inner = Agent(name="inner", tools=[])
    assert await reached([inner, "rev*"], "inner") == ["inner", "review"]


@pytest.mark.parametrize(
    ("agents", "told"),
    [
        (["exlpore"], r"agent 'a': agents: there is no 'exlpore'; registered: .*did you mean 'explore'"),
        ({"exlpore": False}, "agent 'a': agents: there is no 'exlpore'"),
        ("explore", "agent 'a': agents='explore'"),
        ([3], "agent 'a': agents holds 3; give names, globs or agents"),
        ([Agent], "agents holds"),
        ({"explore": 1}, "agent 'a': agents: 'explore': 1"),
        (OTHERS[0], "agent 'a': agents=Agent"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whom_nobody_knows_is_an_error(agents: Any, told: str) -> None:
    """[FIL-02] [FIL-04] A misspelt name, a single agent and anything else: when the client is made."""
    with pytest.raises(ConfigError, match=told):
        Client(agents=[Agent(name="a", agents=agents), *OTHERS])


def test_a_glob_that_names_nobody_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """[FIL-04] Then there is nobody to delegate to."""
    caplog.set_level(logging.WARNING)
    client = Client(agents=[Agent(name="a", tools={"builtins": []}, agents=["nobody*"])], builtins=False)
    assert "agent 'a': agents: pattern 'nobody*' matches nothing" in caplog.text
    assert "task" in client.toolkit.names()


def test_an_agent_of_its_own_with_the_name_of_another_is_a_conflict() -> None:
    """[FIL-08] Also when a glob names the other."""
    other = Agent(name="deploy", description="Another one.")
    with pytest.raises(NameConflict, match="'deploy'"):
        Client(agents=[Agent(name="a", agents=[other, "d*"]), *OTHERS])


CALLERS: list[Callable[[list[str | Runnable] | None], list[Agent]]] = [
    lambda below: [Agent(name="a", agents={"c": False}), Agent(name="b", agents=below)],
    lambda below: [Agent(name="a", agents={"c*": False}), Agent(name="b", agents=below)],
    lambda below: [Agent(name="a", agents={"b": True, "c": False}), Agent(name="b", agents=below)],
    lambda below: [Agent(name="a", agents={"c": False}), Agent(name="b", tools=["task"], agents=below)],
]


@pytest.mark.parametrize("callers", CALLERS)
@pytest.mark.parametrize("below", [None, ["c"], ["*"], "itself"])
async def test_an_agent_that_is_denied_is_out_of_reach_below(
    callers: Callable[[list[str | Runnable] | None], list[Agent]], below: Any
) -> None:
    """[FIL-09] Whatever the next one lists, also the agent itself; a chain that goes another way has it."""
    c = Agent(name="c", tools=[])
    agents = [*callers([c] if below == "itself" else below), c]
    did = await tried(Trials("abc"), agents, tools=[], skills=None, builtins=False)
    assert set(did) == {(), ("a",), ("a", "b")} and did["a", "b"] == set()
    free = await tried(Trials("bc"), agents, tools=[], skills=None, builtins=False)
    assert free["b",] == {"c"}


async def test_nobody_at_all_goes_down_and_an_empty_list_does_not() -> None:
    """[FIL-09] `False` is a denial of everybody, for runs that a tool starts below, too; `[]` shapes the
    agent's own view."""
    offers: dict[str, list[str]] = {}
    b = Agent(name="b")

    def reply(request: ModelRequest) -> Message | str:
        offers[request.agent] = [t.name for t in request.tools]
        return assistant("", call("start")) if request.turn == 1 and request.agent == "a" else "ok"

    @tool
    async def start(ctx: ToolContext) -> str:
        """Start another agent."""
        return (await ctx.run(b, "go")).text

    cases: list[tuple[Any, list[str]]] = [(False, []), ([], ["task"])]
    for nobody, there in cases:
        agents: Any = [Agent(name="a", agents=nobody), b]
        model = FunctionModel(reply)
        async with Client(model=model, builtins=False, tools=[start], agents=agents) as client:
            await client.run("a", "go")
        assert offers == {"a": ["start"], "b": ["start", *there]}


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(FILTERS)
def test_targets_pass_what_the_filter_passes(spec: Any) -> None:
    """[FIL-08] For every shape, over any names: one vocabulary."""
    targets = Targets.of(spec, "here")
    assert not targets.own
    for name in NAMES:
        assert targets.names.admits(name) == NameFilter.of(spec, "here").admits(name)
