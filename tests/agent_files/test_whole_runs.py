"""Agents from files, in a client that delegates to them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from textwrap import dedent

import pytest

from tests.agent_files.helpers import header, write
from tests.whole.support import stdio
from toolnexus import Client, ConfigError, ModelRequest, RunResult, SkillDef, tool
from toolnexus.agents.files import load_agents
from toolnexus.errors import UnknownNames
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

TEAM = {
    "agents/review/code-reviewer.md": dedent(
        """\
        ---
        name: code-reviewer
        description: Use this agent when code was changed. Examples:

        <example>
        Context: A function was written.
        user: "Please add a retry"
        assistant: "Done: now the code-reviewer looks at it"
        </example>

        tools: Read, Grep, Glob, WebSearch
        model: inherit
        color: cyan
        ---

        You review. Change nothing.
        """
    ),
    "agents/runner.md": header("tools: [Bash]", "maxTurns: 3", name="runner", body="You run commands."),
    "agents/README.md": "# The team\n",
    "src/pay.py": "def pay():\n    retry = None\n",
}


def outputs(result: RunResult) -> list[tuple[bool, str]]:
    return [(r.is_error, r.output) for message in result.messages for r in message.tool_results]


async def test_a_client_delegates_to_agents_of_a_folder(tmp_path: Path) -> None:
    """[AF-30] Each has its own prompt, description and tools, on the caller's model; both run at once, and
    whoever's file names no bash cannot run it, also when its model tries."""
    write(tmp_path, TEAM)
    attempt = call("bash", command="echo yes > by-reviewer.txt")
    model = ScriptedModel(
        by_path={
            "main": [
                reply(
                    call("task", id="r", agent="code-reviewer", prompt="Review src."),
                    call("task", id="x", agent="runner", prompt="Count."),
                ),
                "done",
            ],
            "main/code-reviewer.r": [
                reply(attempt),
                reply(call("grep", pattern="retry"), call("read", path="src/pay.py")),
                "pay.py:2 sets no retry",
            ],
            "main/runner.x": [reply(call("bash", command="echo yes > by-runner.txt")), "ran"],
        }
    )
    agents = load_agents(tmp_path / "agents")
    async with asyncio.timeout(20):
        async with Client(
            model=model, builtins=["read", "grep", "glob", "bash"], agents=agents, workdir=tmp_path
        ) as client:
            result = await client.ask("Look at the payment code.")
    assert [r.output for r in result.messages[2].tool_results] == ["pay.py:2 sets no retry", "ran"]
    reviewer, runner = result.sub_agents
    assert outputs(reviewer)[0][0] and "unknown tool 'bash'" in outputs(reviewer)[0][1]
    assert [error for error, _ in outputs(reviewer)[1:]] == [False, False]
    assert "src/pay.py:2" in outputs(reviewer)[1][1]
    assert not outputs(runner)[0][0]
    assert (tmp_path / "by-runner.txt").exists() and not (tmp_path / "by-reviewer.txt").exists()
    requests = {"/".join(r.path): r for r in model.requests}
    assert requests["main/code-reviewer.r"].system == "You review. Change nothing."
    assert {t.name for t in requests["main/code-reviewer.r"].tools} == {"read", "grep", "glob"}
    assert {t.name for t in requests["main/runner.x"].tools} == {"bash"}
    (task,) = [t for t in requests["main"].tools if t.name == "task"]
    assert "code-reviewer: Use this agent when code was changed." in task.description


async def test_what_a_file_denies_stays_denied_below_it(tmp_path: Path) -> None:
    """[AF-31] An agent with all tools but bash cannot have another agent run it."""
    write(
        tmp_path,
        {
            "careful.md": header("disallowedTools: Bash", name="careful"),
            "runner.md": header("tools: Bash", name="runner"),
        },
    )
    bash = call("bash", command="echo yes > made.txt")
    model = ScriptedModel(
        by_path={
            "main": [reply(call("task", id="c", agent="careful", prompt="p")), "done"],
            "main/careful.c": [reply(bash, call("task", id="r", agent="runner", prompt="p")), "no"],
            "main/careful.c/runner.r": [reply(bash), "no"],
        }
    )
    agents = load_agents(tmp_path)
    async with asyncio.timeout(20), Client(model=model, agents=agents, workdir=tmp_path) as client:
        result = await client.ask("go")
    (careful,) = result.sub_agents
    (runner,) = careful.sub_agents
    assert outputs(careful)[0][0] and outputs(runner)[0][0]
    assert not (tmp_path / "made.txt").exists()


async def test_whom_a_file_names_is_whom_it_may_call(tmp_path: Path) -> None:
    """[AF-30] `Agent(helper)` is offered, everybody else refused; a list without it delegates to nobody."""
    write(
        tmp_path,
        {
            "lead.md": header("tools: Agent(helper)", name="lead"),
            "helper.md": header("tools: Read", name="helper"),
            "other.md": header("tools: []", name="other"),
        },
    )
    model = ScriptedModel(
        by_path={
            "main": [reply(call("task", id="l", agent="lead", prompt="p")), "done"],
            "main/lead.l": [
                reply(
                    call("task", id="h", agent="helper", prompt="p"),
                    call("task", id="o", agent="other", prompt="p"),
                ),
                "fine",
            ],
            "main/lead.l/helper.h": ["helped"],
        }
    )
    async with asyncio.timeout(20), Client(model=model, agents=load_agents(tmp_path)) as client:
        result = await client.ask("go")
    helped, other = outputs(result.sub_agents[0])
    assert helped == (False, "helped")
    assert other[0] and "'other'" in other[1]
    (helper,) = [r for r in model.requests if r.path[-1] == "helper.h"]
    assert [t.name for t in helper.tools] == ["read"]


async def test_functions_and_skills_of_the_host_can_be_named(tmp_path: Path) -> None:
    """[AF-30] By their own names, beside those of Claude Code."""

    @tool
    def lookup(term: str) -> str:
        """Look a term up."""
        return f"{term}: found"

    write(
        tmp_path,
        {
            "a.md": header("tools: lookup, Skill", name="with-skill"),
            "b.md": header("tools: lookup", name="without"),
            "c.md": header("disallowedTools: Skill, lookup", name="denied"),
        },
    )
    seen: dict[str, list[str]] = {}

    def note(request: ModelRequest) -> str:
        seen[request.path[-1].partition(".")[0]] = sorted(t.name for t in request.tools)
        return "ok"

    names = ["with-skill", "without", "denied"]
    tasks = [call("task", agent=name, prompt="p") for name in names]
    model = ScriptedModel(by_path={"main": [reply(*tasks), "done"], "main/*": [note]})
    skill = SkillDef(name="pdf", content="Do it.", description="About PDFs.")
    async with asyncio.timeout(20):
        async with Client(
            model=model, builtins=False, tools=[lookup], skills=skill, agents=load_agents(tmp_path)
        ) as client:
            await client.ask("go")
    assert seen == {"with-skill": ["lookup", "skill"], "without": ["lookup"], "denied": ["task"]}


async def test_tools_of_a_server_are_those_that_it_has_here(tmp_path: Path) -> None:
    """[AF-30] One by name, also a long one; all by their server; all but one; and none of another server."""
    long = "n" * 70
    write(
        tmp_path,
        {
            "one.md": header(f"tools: [mcp__my_shop__echo, mcp__other__{long}]", name="one"),
            "all.md": header("tools: mcp__my_shop", name="all"),
            "but.md": header("disallowedTools: [mcp__my_shop__echo, mcp__other, Task]", name="but"),
        },
    )
    seen: dict[str, set[str]] = {}

    def note(request: ModelRequest) -> str:
        seen[request.path[-1].partition(".")[0]] = {t.name for t in request.tools}
        return "ok"

    tasks = [call("task", agent=name, prompt="p") for name in ("one", "all", "but")]
    model = ScriptedModel(by_path={"main": [reply(*tasks), "done"], "main/*": [note]})
    servers = {"my shop": stdio(), "other": stdio("--names", json.dumps([long]))}
    async with asyncio.timeout(30):
        async with Client(
            model=model, mcp={"mcpServers": servers}, builtins=False, agents=load_agents(tmp_path)
        ) as client:
            await client.ask("go")
            names = set(client.toolkit.names()) - {"task"}
    mine = {name for name in names if name.startswith("my_shop_")}
    assert len(mine) > 2 and mine < names
    assert sorted(name[:12] for name in seen["one"]) == ["my_shop_echo", "other_nnnnnn"]
    assert seen["all"] == mine
    assert seen["but"] == mine - {"my_shop_echo"}


async def test_a_denied_name_is_denied_whatever_tool_has_it(tmp_path: Path) -> None:
    """[AF-33] A function and a tool of a server that are called `bash`, here and below; one that is called as
    it is written; and none of it says a word when there is no such tool."""
    write(
        tmp_path,
        {
            "one.md": header("disallowedTools: Bash, WebSearch, srv_echo", name="one"),
            "two.md": header(name="two"),
        },
    )

    @tool
    def bash() -> str:
        """Run."""
        raise AssertionError("it ran")

    @tool(name="WebSearch")
    def search() -> str:
        """Search."""
        raise AssertionError("it ran")

    @tool
    def other() -> str:
        """Do something else."""
        return "fine"

    tries = [call("bash", command="x"), call("WebSearch"), call("srv_echo", text="x"), call("other")]
    model = ScriptedModel(
        by_path={
            "main": [reply(call("task", id="o", agent="one", prompt="p")), "done"],
            "main/one.o": [reply(*tries), reply(call("task", id="t", agent="two", prompt="p")), "no"],
            "main/one.o/two.t": [reply(*tries), "no"],
        }
    )
    client = Client(
        model=model,
        tools=[bash, search, other],
        mcp={"mcpServers": {"srv": stdio()}},
        builtins=False,
        agents=load_agents(tmp_path),
    )
    async with asyncio.timeout(20), client:
        assert {"bash", "WebSearch", "srv_echo", "other"} <= set(client.toolkit.names())
        result = await client.ask("go")
    (one,) = result.sub_agents
    (two,) = one.sub_agents
    assert [error for error, _ in outputs(one)[:4]] == [True, True, True, False]
    assert [error for error, _ in outputs(two)[:4]] == [True, True, True, False]


def test_a_denied_name_that_is_nowhere_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """[AF-34] Once, with the nearest; names of builtins and of Claude Code may always be denied."""
    write(tmp_path, {"x.md": header("disallowedTools: pubish, Bash, WebSearch, mcp__srv__drop")})

    @tool
    def publish() -> str:
        """Publish."""
        return "done"

    Client(model=ScriptedModel([]), tools=[publish], builtins=["read"], agents=load_agents(tmp_path)).close()
    where = f"agent 'x' ({tmp_path}/x.md): tools: "
    assert [r.getMessage() for r in caplog.records if r.name == "toolnexus.tools"] == [
        f"{where}there is no 'pubish' to deny; did you mean 'publish' or 'bash'?",
        f"{where}there is no 'srv_drop' to deny",
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("tools: Raed", "tools: there is no 'Raed'"),
        ("tools: Read, Bash", "tools: there is no 'bash'"),
        ("agents: helpr", "agents: there is no 'helpr'"),
    ],
)
async def test_a_name_that_the_client_does_not_have_is_its_error(
    tmp_path: Path, line: str, says: str
) -> None:
    """[AF-32] Where names are known: when the client is made, with agent and name."""
    agents = load_agents(write(tmp_path, {"x.md": header(line)}))
    with pytest.raises(ConfigError) as caught:
        Client(model=ScriptedModel([]), builtins=["read"], agents=agents)
    assert f"agent 'x' ({tmp_path}/x.md): {says}" in str(caught.value)


def test_all_names_that_are_missing_are_told_at_once(tmp_path: Path) -> None:
    """[AF-35] Of every agent, with the file, and which of them are builtins that could be turned on."""
    write(
        tmp_path,
        {
            "x.md": header("tools: Read, Bash, Edit, lokup", name="x"),
            "y.md": header("tools: Write", name="y"),
        },
    )

    @tool
    def lookup() -> str:
        """Look."""
        return ""

    with pytest.raises(UnknownNames) as caught:
        Client(model=ScriptedModel([]), builtins=["read"], tools=[lookup], agents=load_agents(tmp_path))
    there = "available: ['lookup', 'read', 'skill', 'task']"
    assert str(caught.value).splitlines() == [
        f"agent 'x' ({tmp_path}/x.md): tools: there is no 'bash', 'edit', 'lokup'; {there}; "
        "'lokup': did you mean 'lookup'?",
        f"agent 'y' ({tmp_path}/y.md): tools: there is no 'write'; {there}",
        "add to builtins what agents need of them: 'bash', 'edit', 'write'",
    ]
    assert caught.value.names == ("bash", "edit", "lokup", "write")
