"""Large sets of tools: from several servers, in any order, filtered in one vocabulary."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from typing import Any

import pytest

from tests.loop.support import PATIENCE, Stage, Way, each_style, sent, use
from tests.mcp.helpers import children
from tests.whole.support import skill, stdio
from toolnexus import Agent, Client, ConfigError, FunctionModel, ModelRequest, SkillDef, Tool, tool
from toolnexus.testing.endpoint import Seen
from toolnexus.testing.turns import Turn
from toolnexus.tools.skills import SkillSource

pytestmark = pytest.mark.anyio

LONG = "quarterly_revenue_breakdown_by_region_and_product_family_with_a_forecast_of_the_year_v2."
ODD = ["x.y", "x_y", f"{LONG}a", f"{LONG}b", "drop table; --", "ünï"]
SERVERS = ("a.b", "a_b", "crm", "search", "x" * 70)
DELAYS = (0.0, 0.05, 0.1, 0.15, 0.2)


def function(name: str) -> Tool:
    return tool(name=name, description="")(lambda: name)


def declared(seen: Seen) -> bytes:
    """The `tools` of a request, byte for byte."""
    text = seen.raw[seen.raw.index(b'"tools":') + len(b'"tools":') :].decode()
    return text[: json.JSONDecoder().raw_decode(text)[1]].encode()


class LateStage(Stage):
    """An endpoint whose turns are written when the tools are known."""

    def __init__(self, turns: list[Turn]) -> None:
        super().__init__({})
        self._turns = turns

    async def _play(self, body: dict[str, Any]) -> Turn:
        return self._turns.pop(0)


@each_style
async def test_three_hundred_tools_of_five_servers_are_the_same_bytes_every_time(way: Way) -> None:
    """[FIL-20] [FIL-21] Servers that connect in another order each time: every turn of every run declares
    the same bytes; each name is safe, short and unique, and leads back to its own server's tool."""
    stages: list[Stage] = []
    order = random.Random(7)
    for _ in range(2):
        turns: list[Turn] = []
        stage = LateStage(turns)
        stages.append(stage)
        delays = order.sample(DELAYS, len(SERVERS))
        flags = ("--names", json.dumps(ODD), "--many", "60", "--slow-start")
        mcp = {name: stdio(*flags, str(delay)) for name, delay in zip(SERVERS, delays, strict=True)}
        async with asyncio.timeout(PATIENCE), stage:
            options: dict[str, Any] = {"builtins": ["read"], "tools": [function("own")]}
            async with Client(model=way.model(stage), mcp=mcp, **options) as client:
                odd = [t for t in client.toolkit if t.source == "mcp" and t.original_name in (*ODD, "pid")]
                calls = [use(t.name, id=f"c{n}") for n, t in enumerate(odd)]
                turns[:] = [Turn(calls=calls), Turn(text="end")]
                result = await client.ask("go")
        said = [r.output for m in result.messages for r in m.tool_results]
        pids = {text for text in said if text.isdecimal()}
        assert [text for text in said if text not in pids] == [f"{name} ran" for name in sorted(ODD)] * 5
        assert len(pids) == len(SERVERS)
    requests = [seen for stage in stages for seen in stage.requests]
    assert len(requests) == 4 and len({declared(seen) for seen in requests}) == 1
    names = sent(stages[0])[0].tools
    assert len(set(names)) == len(names) > 300
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)


WORDS = ["glob", "grep", "read"]
SPECS: list[tuple[Any, list[str]]] = [
    (True, WORDS),
    ({}, WORDS),
    (False, []),
    ([], []),
    (["read", "gr*"], ["grep", "read"]),
    ({"gl*": True, "read": True}, ["glob", "read"]),
    ({"g*": False}, ["read"]),
    ({"g*": True, "glob": False}, ["grep"]),
]


async def test_one_vocabulary_on_servers_skills_builtins_functions_and_agents() -> None:
    """[FIL-01] [FIL-08] Each shape means the same wherever it stands."""
    mcp = {f"s{n}": stdio("--names", json.dumps(WORDS), tools=spec) for n, (spec, _) in enumerate(SPECS)}
    seen: dict[str, list[str]] = {}

    def model(request: ModelRequest) -> str:
        names = [t.name for t in request.tools]
        listed = [t.description for t in request.tools if t.name == "task"]
        names += [
            line[2:].partition(" ")[0] for text in listed for line in text.splitlines() if line[:2] == "- "
        ]
        seen[request.agent] = [name for name in names if name in WORDS]
        return "ok"

    agents = [Agent(name=f"f{n}", tools={"native": spec}, agents=[]) for n, (spec, _) in enumerate(SPECS)]
    agents += [Agent(name=f"a{n}", tools=["task"], agents=spec) for n, (spec, _) in enumerate(SPECS)]
    known = [Agent(name=name) for name in WORDS]
    options: dict[str, Any] = {"model": FunctionModel(model), "builtins": False, "mcp": mcp}
    async with (
        asyncio.timeout(PATIENCE),
        Client(tools=[function(name) for name in WORDS], agents=[*known, *agents], **options) as client,
    ):
        for n, (spec, names) in enumerate(SPECS):
            assert [w for w in WORDS if f"s{n}_{w}" in client.toolkit] == names, ("mcp", spec)
            for kind in "fa":
                await client.run(f"{kind}{n}", "go")
                assert seen[f"{kind}{n}"] == names, (kind, spec)
    for spec, names in SPECS:
        source = SkillSource([SkillDef(name=w, description=w, content=w) for w in WORDS], filter=spec)
        await source.open(lambda: None)
        assert source.skill_set.names == names, ("skills", spec)
        assert [w for w in WORDS if w in Client(builtins=spec).toolkit] == names, ("builtins", spec)


async def test_what_is_not_there_is_forgiven_and_what_is_misspelt_is_not(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """[FIL-04] A server that is switched off or broken and its tools, a server without any tool, a skill that
    could not be read: warnings; a typing error beside them is still an error, and leaves nothing."""
    caplog.set_level(logging.WARNING)
    skill(tmp_path, "brew")
    (tmp_path / "brew" / "SKILL.md").rename(tmp_path / "brew" / "SKILL.off")
    (tmp_path / "bake").mkdir()
    (tmp_path / "bake" / "SKILL.md").write_text("---\nname: [bake\n---\n")
    mcp = {
        "gone": {"command": "no-such-program-here"},
        "off": {**stdio(), "disabled": True},
        "bare": stdio(tools=[]),
    }
    options: dict[str, Any] = {"tools": [function("own")], "builtins": False, "skills": tmp_path, "mcp": mcp}
    filters = {
        "mcp": {"gone": False, "off": False, "bare": False, "off_echo": False},
        "skills": {"bake": False},
    }
    agents = [Agent(name="x", tools=["gone_echo", "off_echo", "own"]), Agent(name="y", tools=filters)]
    async with asyncio.timeout(PATIENCE), Client(agents=agents, **options) as client:
        task = client.toolkit.get("task")
        assert task is not None and "- x (tools: own)\n- y (tools: own)" in task.description
    warned = [r.getMessage() for r in caplog.records if "there is no" in r.getMessage()]
    assert [text.partition(" (")[0] for text in warned] == [
        "agent 'x': tools: there is no 'gone_echo'",
        "agent 'x': tools: there is no 'off_echo'",
        "agent 'y': tools: mcp: there is no 'off_echo'",
        "agent 'y': tools: skills: there is no 'bake'",
    ]
    wrong: list[Any] = [["gone_echo", "onw"], {"native": {"onw": False}}, {"mcp": {"gnoe": False}}]
    for spec in wrong:
        with pytest.raises(ConfigError, match=r"there is no '(onw|gnoe)'.*did you mean '(own|gone)'"):
            async with asyncio.timeout(PATIENCE), Client(agents=[Agent(name="x", tools=spec)], **options):
                pass
    assert children() == set()
