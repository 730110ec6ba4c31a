"""Roles: words and tools that agents have in common."""

import asyncio
import gc
import weakref

import pytest

from tests.workflow.worlds import Asked, Said, client, task
from toolnexus import Agent, Capability, Client, ConfigError, Role, tool
from toolnexus.testing import call
from toolnexus.workflow import AgentStep, CoordinatorStep

pytestmark = pytest.mark.anyio


@tool
async def measure() -> str:
    """Measure."""
    return "7"


@tool
async def weigh() -> str:
    """Weigh."""
    return "3"


def surveyor(**parts: object) -> Role:
    given = {
        "judgments": ["Doubt round numbers."],
        "capabilities": [Capability("Measure lengths.", [measure]), "Estimate."],
        "responsibilities": ["Give a unit.", "Name the source."],
        **parts,
    }
    return Role("You are a surveyor.", **given)  # type: ignore[arg-type]


def test_a_role_is_rendered_in_one_order() -> None:
    """[WF-45] Persona, judgments, capabilities, responsibilities, then the agent's own instructions."""
    agent = surveyor().agent("north", instructions="Stay in the north.", description="d", max_turns=3)
    assert agent.system_prompt == (
        "You are a surveyor.\n\n## Judgments\n- Doubt round numbers.\n\n"
        "## Capabilities\n- Measure lengths.\n- Estimate.\n\n"
        "## Responsibilities\n- Give a unit.\n- Name the source.\n\nStay in the north."
    )
    assert (agent.name, agent.description, agent.max_turns) == ("north", "d", 3)
    assert Role("Alone.").agent("a").system_prompt == "Alone."


async def test_the_tools_of_a_role_are_those_of_its_capabilities() -> None:
    """[WF-45] Once each, beside the agent's own; a role without any gives none."""
    role = surveyor(capabilities=[Capability("a", [measure, "read"]), Capability("b", [measure, "gl*"])])
    async with client("function", lambda asked: "ok", builtins=["read", "glob", "bash"]) as (one, seen):
        await one.run(role.agent("a", tools=[weigh]), "x")
        await one.run(Role("Alone.").agent("b"), "x")
    assert sorted(seen[0].tools) == ["glob", "measure", "read", "weigh"] and not seen[1].tools


async def test_an_edit_reaches_every_agent_of_the_role_and_no_other() -> None:
    """[WF-46] Registered, in a step, with a team, and in what others read about them."""
    role, other = surveyor(), surveyor()
    first = role.agent("first", description="f")
    second, third = role.agent("second", description="s"), other.agent("third", description="t")
    chief = CoordinatorStep(role.agent("chief"), [third])

    def brain(asked: Asked) -> Said:
        if asked.system.startswith("main"):
            return task_of("first") if asked.turn == 1 else asked.last
        return asked.system.split("\n")[0]

    def task_of(name: str) -> Said:
        return call("task", agent=name, prompt="go")

    async with client("function", brain, agents=[first], system_prompt="main") as (one, seen):
        for words in ("You are a surveyor.", "You are a weigher."):
            assert (await one.ask("x")).text == words
            assert (await one.run(AgentStep(second), "x")).output == words
            assert (await one.run(chief, "x")).output == words
            assert (await one.run(third, "x")).output == "You are a surveyor."
            role.edit(persona="You are a weigher.", capabilities=[Capability("Weigh.", [weigh])])
        tools = [asked.tools for asked in seen if not asked.system.startswith("main")]
        assert tools == [
            ["measure"],
            ["measure"],
            ["measure", "third"],
            ["measure"],
            ["weigh"],
            ["weigh"],
            ["weigh", "third"],
            ["measure"],
        ]
        assert one.tools_of(first).names() == ["weigh"]
        assert "(tools: weigh)" in next(t.description for t in one.toolkit if t.name == "task")


async def test_a_run_in_flight_goes_on_as_it_was() -> None:
    """[WF-46] The words and tools of its first turn hold until it ends; the next run has the new ones."""
    role = surveyor()
    agent = role.agent("a")
    edited, there = asyncio.Event(), asyncio.Event()

    async def brain(asked: Asked) -> Said:
        if asked.turn == 1:
            there.set()
            await edited.wait()
            return call("measure")
        return asked.last

    async with client("function", brain) as (one, seen), asyncio.timeout(10):
        running = asyncio.create_task(one.run(agent, "x"))
        await there.wait()
        role.edit(persona="Other.", capabilities=())
        edited.set()
        assert (await running).text == "7"
        await one.run(agent, "x")
    assert [asked.tools for asked in seen] == [["measure"], ["measure"], [], []]
    assert [asked.system.split("\n")[0] for asked in seen] == ["You are a surveyor."] * 2 + ["Other."] * 2


async def test_names_of_an_edit_are_checked_at_the_next_run() -> None:
    """[WF-46] Also those of a registered agent; and whoever is wrong changes nothing."""
    role = surveyor()
    agent = role.agent("a", agents=["b"])
    back = Agent(name="b", agents=["a"], tools=[])
    async with client("function", lambda asked: "ok", agents=[agent, back]) as (one, _):
        await one.run("a", "x")
        role.edit(capabilities=[Capability("Read.", ["raed"])])
        with pytest.raises(ConfigError, match="raed"):
            await one.run("a", "x")
        role.edit(capabilities=[Capability("Weigh.", [weigh])])
        assert (await one.run("a", "x")).text == "ok"
        with pytest.raises(ConfigError, match="capability"):
            role.edit(persona="New.", capabilities=[7])  # type: ignore[list-item]
        assert agent.system_prompt.startswith("You are a surveyor.")


async def test_a_role_keeps_no_agent_alive() -> None:
    """[WF-46] Agents are held weakly."""
    role = surveyor()
    agent = role.agent("a")
    gone = weakref.ref(agent)
    del agent
    gc.collect()
    assert gone() is None
    role.edit(persona="Still fine.")


def test_what_is_no_part_of_a_role_is_told() -> None:
    """[WF-45] Where it is written."""
    for wrong in ({"judgments": "text"}, {"judgments": [""]}, {"capabilities": [Capability]}):
        with pytest.raises(ConfigError, match=next(iter(wrong))[:9]):
            surveyor(**wrong)
    with pytest.raises(ConfigError, match="persona"):
        Role(" ")
    with pytest.raises(ConfigError, match="words"):
        Capability("")


async def test_a_member_of_a_team_is_edited_too() -> None:
    """[WF-46] It runs as it is by then."""
    role = surveyor(capabilities=())
    flow = CoordinatorStep(
        Agent(name="c", system_prompt="chief", tools=[]), [role.agent("m", description="d")]
    )

    def brain(asked: Asked) -> Said:
        if asked.system == "chief":
            return task("m") if asked.turn == 1 else asked.last
        return asked.system.split("\n")[0]

    async with client("function", brain) as (one, _):
        role.edit(persona="Edited.")
        assert (await one.run(flow, "x")).output == "Edited."
    assert isinstance(one, Client)
