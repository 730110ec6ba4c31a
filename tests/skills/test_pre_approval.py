"""`allowed-tools` of a loaded skill, where the host trusts it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.skills.helpers import write_skill
from toolnexus import Agent, Client, ConfigError
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

ASK = {"bash": "ask", "write": "ask"}


async def ran(
    folder: Path,
    allowed: str,
    *calls: tuple[str, dict[str, Any]],
    permissions: dict[str, str] = ASK,
    load: bool = True,
    **options: Any,
) -> list[str]:
    """For each call, made after the skill was loaded: `ran`, `asked` or `refused`."""
    write_skill(folder / "skills" / "pdf", f"name: pdf\ndescription: d\nallowed-tools: {allowed}")
    out: list[str] = []
    for name, arguments in calls:
        first = [reply(call("skill", name="pdf"))] if load else []
        model = ScriptedModel([*first, reply(call(name, **arguments)), "end"])
        skills = {"paths": folder / "skills", **({"pre_approve": True} | options)}
        async with (
            asyncio.timeout(30),
            Client(model=model, skills=skills, workdir=folder, permissions=permissions) as client,
        ):
            result = await client.ask("go")
        results = [part for message in result.messages if message.role == "tool" for part in message.parts]
        refused = getattr(results[-1], "is_error", False)
        out.append("asked" if result.pending else "refused" if refused else "ran")
    return out


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command}


async def test_a_call_that_a_loaded_skill_names_passes_where_a_rule_asks(tmp_path: Path) -> None:
    """[SK-50] A whole tool, or a part of it; of a command each part must be named."""
    said = await ran(
        tmp_path,
        "Write Bash(echo:*)",
        bash("echo a"),
        bash("echo a && echo b"),
        bash("echo a && ls"),
        bash("echo $(ls)"),
        ("write", {"path": "x", "content": "y"}),
    )
    assert said == ["ran", "ran", "asked", "asked", "ran"]


async def test_it_widens_nothing(tmp_path: Path) -> None:
    """[SK-50] Not what is denied, not before it is loaded, not without the word of the host, no patterns."""
    denied = {"bash": "ask", "bash(echo *)": "deny"}
    assert await ran(tmp_path, "Bash", bash("echo a"), permissions=denied) == ["refused"]
    assert await ran(tmp_path, "Bash", bash("echo a"), load=False) == ["asked"]
    assert await ran(tmp_path, "Bash", bash("echo a"), pre_approve=False) == ["asked"]
    for allowed in ("'*'", "ba*", "mcp__*", "Bash(ls:*)", "Bash(", "Bash(git add", "Read"):
        assert await ran(tmp_path, allowed, bash("echo a")) == ["asked"]


async def test_a_run_cannot_approve_its_own_calls(tmp_path: Path) -> None:
    """[SK-50] What it writes into the file of a skill approves nothing."""
    write_skill(tmp_path / "skills" / "pdf", "name: pdf\ndescription: d")
    text = "---\nname: pdf\ndescription: d\nallowed-tools: Bash\n---\nx"
    turns = [
        reply(call("write", path="skills/pdf/SKILL.md", content=text)),
        reply(call("skill", name="pdf")),
        reply(call("bash", command="echo a")),
    ]
    skills = {"paths": tmp_path / "skills", "pre_approve": True}
    client = Client(model=ScriptedModel(turns), skills=skills, workdir=tmp_path, permissions={"bash": "ask"})
    async with asyncio.timeout(30), client:
        result = await client.ask("go")
    assert "allowed-tools: Bash" in (tmp_path / "skills/pdf/SKILL.md").read_text()
    assert [request.kind for request in result.pending] == ["approval"]


async def test_a_skill_of_the_caller_approves_nothing_below(tmp_path: Path) -> None:
    """[SK-50] An agent loads it itself."""
    write_skill(tmp_path / "skills" / "pdf", "name: pdf\ndescription: d\nallowed-tools: Bash")
    lead = [reply(call("skill", name="pdf")), reply(call("task", agent="a", prompt="p")), "end"]
    model = ScriptedModel(by_path={"main": lead, "main/*": [reply(call("bash", command="echo a")), "end"]})
    client = Client(
        model=model,
        agents=[Agent(name="a", description="d")],
        skills={"paths": tmp_path / "skills", "pre_approve": True},
        permissions={"bash": "ask"},
        workdir=tmp_path,
    )
    async with asyncio.timeout(30), client:
        assert (await client.ask("go")).pending


def test_the_option_is_a_bool(tmp_path: Path) -> None:
    """[SK-50] Anything else is an error."""
    with pytest.raises(ConfigError, match="pre_approve"):
        Client(model=ScriptedModel([]), skills={"paths": tmp_path, "pre_approve": "yes"})
