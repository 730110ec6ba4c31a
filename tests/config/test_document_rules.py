"""Rules about calls in a document."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from toolnexus import Agent, Client, load, tool
from toolnexus.testing import ScriptedModel, call, reply
from toolnexus.workflow import AgentStep, CoordinatorStep, Sequential, as_runnable, as_tool

pytestmark = pytest.mark.anyio


async def test_rules_of_a_document_and_of_its_agents_hold(tmp_path: Path) -> None:
    """[CFG-25] Those of an agent lie on top: it cannot allow what the document denies."""
    (tmp_path / "a.toml").write_text(
        'builtins = ["bash"]\npermissions = { "bash(echo *)" = "allow", bash = "deny" }\n'
        '[agents.one]\npermissions = { "bash(ls*)" = "allow", "bash(echo no*)" = "deny" }\n'
    )
    calls = [call("bash", command=line) for line in ("echo yes", "echo no", "ls")]
    turns = [reply("", call("task", agent="one", prompt="go")), reply("", *calls), "done", "end"]
    async with load(tmp_path / "a.toml", model=ScriptedModel(turns)) as client:
        result = await client.ask("go")
    said = [r.output for m in result.sub_agents[0].messages for r in m.tool_results]
    assert said[0] == "yes\n"
    assert said[1].startswith("denied:") and "agent 'one': permissions: 'bash(echo no*)'" in said[1]
    assert said[2].startswith("denied:") and "(permissions: 'bash')" in said[2]


async def test_a_rule_about_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """[PERM-20] Once the tools are known, with the nearest; globs, builtins and what a server that is not
    there may bring are none."""
    rules = {
        "wirte": "deny",
        "bash(x)": "ask",
        "x_*": "deny",
        "srv_drop": "deny",
        "mcp_srv_x": "ask",
        "task": "ask",
    }
    options: dict[str, Any] = {"mcp": {"mcpServers": {"srv": {"command": "/nowhere/at/all"}}}}
    async with Client(model=ScriptedModel([]), builtins=["write"], permissions=rules, **options):
        pass
    async with load({"agents": {"a": {"permissions": {"xyz": "deny"}}}}, model=ScriptedModel([])):
        pass
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [line for line in said if "about no tool" in line] == [
        "permissions: 'wirte' is about no tool that is there; did you mean 'write'?",
        "agent 'a': permissions: 'xyz' is about no tool that is there",
    ]


async def test_a_rule_about_a_tool_of_an_agent_in_a_workflow_is_about_something(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """[PERM-20] As a target, behind a tool, and below a coordinator, whose members are tools, too."""

    @tool
    async def pay(to: str) -> str:
        """Pay."""
        return to

    def agent(name: str) -> Agent:
        return Agent(name=name, description="d", tools=[pay])

    team = CoordinatorStep(Agent(name="chief"), [Agent(name="member", tools=[pay])])
    for options in (
        {"agents": [as_runnable(Sequential(AgentStep(agent("a"))), "flow", "d")]},
        {"tools": [as_tool(AgentStep(agent("a")), "flow", "d")]},
        {"agents": [as_runnable(team, "flow", "d")], "permissions": {"pay": "ask", "member": "ask"}},
        {"agents": [as_runnable(team, "flow", "d")], "permissions": {"pya": "ask"}},
    ):
        given: dict[str, Any] = {"permissions": {"pay": "ask"}, **options}
        async with Client(model=ScriptedModel([]), builtins=False, **given):
            pass
    said = [r.getMessage() for r in caplog.records if "about no tool" in r.getMessage()]
    assert said == ["permissions: 'pya' is about no tool that is there; did you mean 'pay'?"]
