"""What is denied stays denied in everything below, whatever stands in between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.tree import BUILTINS, NATIVE, SERVED, SKILLS, Served, Trials, native, tried
from toolnexus import (
    Agent,
    Client,
    FunctionModel,
    Message,
    ModelRequest,
    SkillDef,
    ToolContext,
    assistant,
    tool,
)
from toolnexus.testing import call
from toolnexus.tools.skills import SkillSource

pytestmark = pytest.mark.anyio

KINDS: dict[str, tuple[str, ...]] = {"native": NATIVE, "mcp": SERVED, "builtins": BUILTINS, "skills": SKILLS}
WORDS: dict[str, list[str]] = {
    "native": [*NATIVE, "*a", "al*", "*"],
    "mcp": ["srv", *SERVED, "*_one", "s*"],
    "builtins": [*BUILTINS, "g*", "*"],
    "skills": [*SKILLS, "b?ke", "*"],
}


def filters(words: Sequence[str]) -> st.SearchStrategy[Any]:
    word = st.sampled_from(words)
    return st.one_of(
        st.booleans(), st.lists(word, max_size=2), st.dictionaries(word, st.booleans(), max_size=2)
    )


TOOLS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.fixed_dictionaries({}, optional={kind: filters(words) for kind, words in WORDS.items()}),
    st.lists(st.sampled_from([*NATIVE, *SERVED, *BUILTINS, "skill", "task", "*", "srv_*"]), max_size=4),
)
LINKS = st.lists(st.tuples(TOOLS, st.booleans(), st.booleans()), min_size=2, max_size=4)
"""For each agent of a chain: its tools, whether its caller holds it as an object, and own tools."""


def chain(links: Sequence[tuple[Any, bool, bool]]) -> list[Agent]:
    """Agents a, b, … that each may delegate to the next; gives those to register."""
    registered: list[Agent] = []
    below: list[Any] = []
    for n in reversed(range(len(links))):
        tools, as_object, brings = links[n]
        own = [native("alpha"), Served(("srv_two",))] if isinstance(tools, list) and brings else []
        given = [*cast("list[Any]", tools), *own] if own else cast("Any", tools)
        agent = Agent(name="abcd"[n], tools=given, agents=below)
        below = [agent] if as_object and n else ["abcd"[n]]
        if below != [agent]:
            registered.append(agent)
    return registered


def matches(patterns: Sequence[str], kind: str, name: str) -> bool:
    return any(fnmatchcase(n, p) for p in patterns for n in ([name, "srv"] if kind == "mcp" else [name]))


def denied(tools: Any, kind: str, name: str) -> bool:
    """Whether these tools say `false` to it."""
    spec = of_kind(tools, kind)
    if isinstance(spec, dict):
        return matches([p for p, flag in cast("dict[str, bool]", spec).items() if not flag], kind, name)
    return spec is False


def of_kind(tools: Any, kind: str) -> Any:
    return cast("dict[str, Any]", tools).get(kind) if isinstance(tools, dict) else None


def admitted(tools: Any, brings: bool, kind: str, name: str) -> bool:
    """Whether a view of these tools has it, nothing of what lies above considered."""
    if isinstance(tools, list):
        own = brings and name in ("alpha", "srv_two")
        return own or matches(cast("list[str]", tools), "", "skill" if kind == "skills" else name)
    spec = of_kind(tools, kind)
    if isinstance(spec, dict):
        allow = [p for p, flag in cast("dict[str, bool]", spec).items() if flag]
        return not denied(tools, kind, name) and (not allow or matches(allow, kind, name))
    return spec in (None, True) or (isinstance(spec, list) and matches(cast("list[str]", spec), kind, name))


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(LINKS)
def test_every_run_does_what_its_own_view_has_without_what_is_denied_above(
    links: list[tuple[Any, bool, bool]],
) -> None:
    """[FIL-05] [FIL-06] [FIL-07] In any chain of agents, registered or held as objects, with own tools or
    without, a model that tries everything at every depth can do exactly what the agent's own filters
    admit and no `false` on the way has denied; an allowlist above takes nothing away."""
    names = "abcd"[: len(links)]
    did = asyncio.run(tried(Trials(names), chain(links)))
    for path, able in did.items():
        above = [links["abcd".index(agent)] for agent in path]
        for kind, every in KINDS.items():
            for name in every:
                no = any(denied(tools, kind, name) for tools, _, _ in above)
                yes = not above or admitted(above[-1][0], above[-1][2], kind, name)
                assert (name in able) == (yes and not no), (path, kind, name)


@pytest.mark.parametrize(
    ("spec", "gone"),
    [
        ({"native": False}, set(NATIVE)),
        ({"mcp": False}, set(SERVED)),
        ({"skills": False}, set(SKILLS)),
        ({"builtins": False}, set(BUILTINS)),
        ({"builtins": {"*": False}}, {*BUILTINS, "c"}),
        ({"mcp": {"srv": False}}, set(SERVED)),
        ({"mcp": {"*_one": False}}, {"srv_one"}),
        ({"skills": {"b?ke": False}}, {"bake"}),
    ],
    ids=["native", "mcp", "skills", "builtins", "builtins-glob", "server", "mcp-glob", "skills-glob"],
)
async def test_false_goes_down_for_one_name_for_a_glob_and_for_a_whole_kind(
    spec: dict[str, Any], gone: set[str]
) -> None:
    """[FIL-06] [FIL-09] The next agent names everything in its list and cannot have it; `task` is only
    denied where it is meant by name."""
    everything = [*NATIVE, *SERVED, *BUILTINS, "skill", "task"]
    agents = [
        Agent(name="a", tools=spec, agents=["b"]),
        Agent(name="b", tools=everything, agents=["c"]),
        Agent(name="c", tools=["*"]),
    ]
    did = await tried(Trials("abc"), agents)
    every = {*NATIVE, *SERVED, *BUILTINS, *SKILLS}
    if "c" in gone:  # `*` among builtins is `task` as well
        assert set(did) == {(), ("a",)} and did["a",] == every - gone
        return
    assert did["a",] == (every - gone) | {"b"} and did["a", "b"] == (every - gone) | {"c"}
    assert did["a", "b", "c"] == every - gone


SHAPES: list[Any] = [
    [],
    ["task"],
    {kind: [] for kind in KINDS},
    {"native": {"alpha": True}},
    {"mcp": ["srv_one"]},
]


@pytest.mark.parametrize("spec", SHAPES, ids=repr)
async def test_an_allowlist_shapes_one_view_only(spec: Any) -> None:
    """[FIL-07] What an agent left out of its own view is there again below it."""
    below = Agent(name="b")
    agent = Agent(name="a", tools=spec, agents=[below])
    did = await tried(Trials("ab"), [agent])
    every = {*NATIVE, *SERVED, *BUILTINS, *SKILLS}
    assert did["a",] - {"b"} < every and did["a", "b"] == every


async def test_a_run_that_a_tool_starts_is_below_as_well() -> None:
    """[FIL-06] A tool of the host that runs an agent hands the denials of its caller on."""
    ran: list[str] = []

    @tool
    async def alpha() -> None:
        """Say that it ran."""
        ran.append("alpha")

    @tool
    async def start(ctx: ToolContext) -> str:
        """Run an agent that nobody registered."""
        return (await ctx.run(Agent(name="b", tools=["alpha", "beta"]), "go")).text

    offers: dict[str, list[str]] = {}

    def reply(request: ModelRequest) -> Message | str:
        offers[request.agent] = [t.name for t in request.tools]
        return assistant("", call("alpha"), call("start")) if request.turn == 1 else "ok"

    agent = Agent(name="a", tools={"native": {"alpha": False}}, agents=[])
    tools = [alpha, native("beta"), start]
    async with Client(model=FunctionModel(reply), builtins=False, tools=tools) as client:
        await client.run(agent, "go")
    assert offers == {"a": ["beta", "start"], "b": ["beta"]} and ran == []


async def test_tools_that_an_agent_brings_are_denied_as_well() -> None:
    """[FIL-10] A function, a server and a skill folder of its own: what lies above has said no to them."""
    own = [native("alpha"), native("gamma"), Served(("srv_one",)), SkillSource([skill("brew"), skill("fry")])]
    denials = {"native": {"alpha": False}, "mcp": False, "skills": {"brew": False}}
    agents = [Agent(name="a", tools=denials, agents=["b"]), Agent(name="b", tools=own)]
    trials = Trials("ab")
    did = await tried(trials, agents)
    assert did["a", "b"] == set() and trials.offers["b"] == ["gamma", "skill"]
    free = Trials("b")
    assert (await tried(free, agents))["b",] == {"alpha", "srv_one", "brew"}


def skill(name: str) -> SkillDef:
    return SkillDef(name=name, description=f"To {name}.", content=name)


async def test_an_agent_that_brings_skills_has_their_catalog() -> None:
    """[FIL-11] In its own system prompt, without those that are denied to it."""
    systems: dict[str, str] = {}

    def reply(request: ModelRequest) -> Message | str:
        systems[request.agent] = request.system
        first = {"main": call("task", agent="a", prompt="p"), "a": call("task", agent="b", prompt="p")}
        return assistant("", first[request.agent]) if request.turn == 1 and request.agent in first else "ok"

    source = SkillSource([skill("brew"), skill("fry")])
    agents = [
        Agent(name="a", tools={"skills": {"fry": False}}, agents=["b"]),
        Agent(name="b", system_prompt="I cook.", tools=[source]),
    ]
    async with Client(model=FunctionModel(reply), builtins=False, agents=agents) as client:
        await client.ask("go")
    assert systems["main"] == systems["a"] == ""
    assert systems["b"].startswith("I cook.\n\n") and "**brew**" in systems["b"] and "fry" not in systems["b"]


async def test_a_denied_tool_does_not_come_back_under_another_name() -> None:
    """[FIL-12] Another tool takes its name, so that both are called otherwise from then on: it stays denied,
    in the run that goes on, too."""
    ran: list[str] = []

    class Shelf(Served):
        name = "shelf"

        def _tool(self, name: str) -> Any:
            return tool(name=name.replace(".", "_"), description="")(lambda: ran.append(name)).named(name)

    shelf = Shelf(("drop.all",))

    @tool
    async def more() -> str:
        """Make the shelf list more."""
        shelf.list("drop.all", "drop_all")
        return "listed"

    seen: list[list[str]] = []

    def reply(request: ModelRequest) -> Message | str:
        names = [t.name for t in request.tools]
        if request.agent == "main":
            return assistant("", call("task", agent="a", prompt="p")) if request.turn == 1 else "ok"
        seen.append(names)
        if request.turn > 2:
            return "ok"
        return assistant("", *(call(name) for name in names), call("drop_all"))

    agents = [Agent(name="a", tools={"native": {"drop_all": False}}, agents=[])]
    model = FunctionModel(reply)
    async with Client(model=model, builtins=False, tools=[shelf, more], agents=agents) as client:
        await client.ask("go")
        assert len([name for name in client.toolkit.names() if name.startswith("drop_all_")]) == 2
    assert seen == [["more"]] * 3 and ran == []


async def test_the_catalog_of_task_tells_what_a_target_can_do_here() -> None:
    """[FIL-13] Without what the caller is denied: the same target has more elsewhere."""
    descriptions: dict[str, str] = {}

    def reply(request: ModelRequest) -> Message | str:
        task = next((t for t in request.tools if t.name == "task"), None)
        descriptions[request.agent] = task.description if task else ""
        if request.agent == "main" and request.turn == 1:
            return assistant("", call("task", agent="a", prompt="p"))
        return "ok"

    agents = [
        Agent(name="a", tools={"native": {"alpha": False}}, agents=["b"]),
        Agent(name="b", tools=["alpha", "beta"]),
    ]
    tools = [native("alpha"), native("beta")]
    async with Client(model=FunctionModel(reply), builtins=False, tools=tools, agents=agents) as client:
        await client.ask("go")
    assert descriptions["main"].endswith("- a (tools: beta)\n- b (tools: alpha, beta)")
    assert descriptions["a"].endswith("- b (tools: beta)")
