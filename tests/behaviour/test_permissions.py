"""Rules about calls: who may do what, who is asked, and who never."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolnexus import (
    Agent,
    Answer,
    Client,
    ConfigError,
    Request,
    Tool,
    ToolContext,
    ToolResult,
    pending,
    tool,
)
from toolnexus.core.result import RunResult
from toolnexus.testing import ScriptedModel, call, reply
from toolnexus.tools.permissions import Rules, commands

pytestmark = pytest.mark.anyio


def outputs(result: RunResult) -> list[str]:
    return [part.output for message in result.messages for part in message.tool_results]


async def asked(*calls: Any, **options: Any) -> RunResult:
    model = ScriptedModel([reply("", *calls), "end"])
    chosen: dict[str, Any] = {"builtins": ["bash"], **options}
    async with Client(model=model, **chosen) as client:
        return await client.ask("go")


def verdict(rules: dict[str, str], command: str) -> str | None:
    bash = Tool("bash", "", {}, _nothing, source="builtin")
    rule = Rules.of(rules, "x").decide(bash, {"command": command}, Path("/w"))
    return None if rule is None else rule.verdict


async def _nothing(arguments: dict[str, Any], ctx: Any) -> str:
    return ""


async def test_a_rule_allows_asks_or_denies() -> None:
    """[PERM-01] Denied calls do not run and the model reads why; without a rule everything is allowed."""
    rules = {"bash(echo *)": "allow", "bash(rm *)": "deny", "bash": "deny"}
    result = await asked(call("bash", command="echo hi"), call("bash", command="rm x"), permissions=rules)
    first, second = outputs(result)
    assert first == "hi\n"
    assert second.startswith("denied: 'bash' may not be called so (permissions: 'bash(rm *)')")
    assert outputs(await asked(call("bash", command="echo hi"))) == ["hi\n"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git status", "allow"),
        ("git status --short", "allow"),
        ("git push", "ask"),
        ("git status && git push", "ask"),
        ("git status; rm -rf /", "deny"),
        ("git status | rm x", "deny"),
        ("git status & rm x", "deny"),
        ("git status\nrm x", "deny"),
        ("git status || git status", "allow"),
        ("git status 'a && b'", "allow"),
        ('git status "a; b"', "allow"),
        ("git status $(rm x)", "deny"),
        ("git status `rm x`", "deny"),
        ("git status > /etc/passwd", "ask"),
        ("git status <(rm x)", "deny"),
        ("(git status)", "ask"),
        ("git status 'unclosed", "ask"),
        ("eval git status", "ask"),
        ('git status "$(rm x)"', "deny"),
        ("", "ask"),
    ],
)
def test_every_part_of_a_command_needs_leave(command: str, expected: str) -> None:
    """[PERM-02] The strictest part decides, and what cannot be taken apart passes by no pattern."""
    rules = {"bash": "ask", "bash(git status*)": "allow", "bash(rm *)": "deny"}
    assert verdict(rules, command) == expected


@pytest.mark.parametrize(
    "command",
    [
        "/bin/rm x",
        "'rm' x",
        "r\\m x",
        "rm\tx",
        "FOO=1 rm x",
        "env -i FOO=1 rm x",
        "sudo rm x",
        "(rm x)",
        "{ rm x; }",
        "! rm x",
        "if true; then rm x; fi",
        "f() { rm x; }; f",
        "find . | xargs rm x",
        "bash -c 'rm x'",
        'eval "rm x"',
        "echo $(rm x)",
        "echo >(rm x)",
    ],
)
def test_a_program_is_known_however_it_is_called(command: str) -> None:
    """[PERM-50] What is denied or asked by pattern: in groups and expansions, behind variables and words that
    run others, quoted, with its folder. A more specific rule that allows still does."""
    assert verdict({"bash(rm *)": "deny"}, command) == "deny"
    assert verdict({"bash(rm *)": "ask", "bash(rm x)": "allow", "bash": "allow"}, "rm x") == "allow"
    assert verdict({"bash(rm *)": "deny"}, "git commit -m 'fix; rm x'") is None


def test_an_address_is_known_however_it_is_spelt() -> None:
    """[PERM-51] Scheme and host in capitals, a user before the host; no user makes another host allowed."""
    fetch = Tool("webfetch", "", {}, _nothing, source="builtin")
    rules = {"webfetch(http*://evil.com/*)": "deny", "webfetch(https://ok.com/*)": "allow", "webfetch": "ask"}

    def said(url: str) -> str:
        rule = Rules.of(rules, "x").decide(fetch, {"url": url}, Path("/w"))
        return "" if rule is None else rule.verdict

    for url in ("http://evil.com/", "HTTP://evil.com/", "https://EVIL.com/x", "http://ok.com@evil.com/"):
        assert said(url) == "deny"
    assert said("https://ok.com/x") == said("HTTPS://OK.com/x") == "allow"
    assert said("https://ok.com@other.com/") == said("https://ok.com.other.com/") == "ask"


def test_the_most_specific_rule_wins_and_ties_go_to_the_stricter() -> None:
    """[PERM-03] More letters of the tool, then of the pattern; order does not matter."""
    rules = {"*": "deny", "bash": "ask", "bash(git *)": "deny", "bash(git log*)": "allow"}
    for order in (rules, dict(reversed(rules.items()))):
        assert verdict(order, "git log -1") == "allow"
        assert verdict(order, "git push") == "deny"
        assert verdict(order, "ls") == "ask"
    assert verdict({"bash(a?)": "allow", "bash(?b)": "deny"}, "ab") == "deny"
    assert verdict({"read": "deny"}, "ls") is None


@given(st.text(alphabet="git status;|&\n$()`'\"<>rmx ", max_size=40))
@settings(max_examples=300, derandomize=True, deadline=None)
def test_nothing_that_runs_another_program_passes_as_git_status(command: str) -> None:
    """[PERM-02] Whatever is allowed is one or more plain `git status…` commands."""
    if verdict({"bash(git status*)": "allow", "bash": "ask"}, command) == "allow":
        parts, sure = commands(command)
        assert sure and all(part.startswith("git status") for part in parts)
        assert not set(command) & set("$`<>()")


async def test_a_denied_tool_is_not_offered() -> None:
    """[PERM-04] It is refused as unknown all the same; with a pattern that allows, it is offered."""
    model = ScriptedModel([reply("", call("bash", command="ls")), "end"])
    async with Client(model=model, builtins=["bash", "read"], permissions={"bash": "deny"}) as client:
        result = await client.ask("go")
    assert [t.name for t in model.requests[0].tools] == ["read"]
    assert "unknown tool 'bash'" in outputs(result)[0]


async def test_rules_only_narrow_on_the_way_down() -> None:
    """[PERM-05] An agent cannot allow what its caller denied or asks, at any depth; its own rules hold
    below it."""
    inner = Agent(name="inner", tools=["bash"], agents=[], permissions={"bash": "allow"})
    outer = Agent(name="outer", tools=["task"], agents=["inner"], permissions={"bash(rm *)": "deny"})
    turns = {
        "main": [reply("", call("task", agent="outer", prompt="o")), "end"],
    }
    model = ScriptedModel(
        [
            turns["main"][0],
            reply("", call("task", agent="inner", prompt="i")),
            reply(
                "", call("bash", command="rm x"), call("bash", command="cat x"), call("bash", command="ls")
            ),
            "inner done",
            "outer done",
            "end",
        ]
    )
    options: dict[str, Any] = {"builtins": ["bash", "task"], "permissions": {"bash(cat *)": "deny"}}
    async with Client(model=model, agents=[outer, inner], **options) as client:
        result = await client.ask("go")
    (below,) = result.sub_agents[0].sub_agents
    removed, shown, listed = outputs(below)
    assert removed.startswith("denied:") and "agent 'outer'" in removed
    assert shown.startswith("denied:") and "agent" not in shown
    assert not listed.startswith("denied:")


async def test_who_is_asked_sees_the_exact_call() -> None:
    """[PERM-06] A request of kind `approval` with path, tool, arguments, rule; declined, it stays undone."""
    seen: list[Request] = []

    def on_request(request: Request) -> Answer:
        seen.append(request)
        return Answer(id=request.id, ok="yes" in str(request.data), reason=None)

    calls = [call("bash", command="echo yes"), call("bash", command="echo no")]
    result = await asked(*calls, permissions={"bash": "ask"}, on_request=on_request)
    assert outputs(result) == ["yes\n", 'declined: run bash with {"command": "echo no"}?']
    data = seen[0].data or {}
    assert (seen[0].kind, data["tool"], data["arguments"]) == ("approval", "bash", {"command": "echo yes"})
    assert data["path"] == ["main"] and data["rule"] == "bash"


async def test_an_approval_survives_a_restart_and_holds_for_its_arguments() -> None:
    """[PERM-07] Resumed from JSON, an approved call runs once; an edited one is refused."""
    calls = [call("bash", command="echo one"), call("bash", command="echo two")]
    result = await asked(*calls, permissions={"bash": "ask"})
    assert result.status == "pending" and len(result.pending) == 2
    text = json.dumps(result.snapshot).replace(
        '\\"command\\": \\"echo two\\"', '\\"command\\": \\"echo 666\\"'
    )
    async with Client(model=ScriptedModel(["end"]), builtins=["bash"], permissions={"bash": "ask"}) as client:
        last = await client.resume(json.loads(text), [Answer(id=r.id) for r in result.pending])
    one, two = outputs(last)
    assert one == "one\n" and two.startswith("refused:")


async def test_a_tool_that_asks_itself_may_do_so_after_its_approval() -> None:
    """[PERM-08] Two questions, one of the rule and one of the tool; the tool sees only its own answer."""

    @tool
    async def ship(ctx: ToolContext) -> str | ToolResult:
        """Ship."""
        return f"to {ctx.answer.data}" if ctx.answer else pending(kind="input", prompt="where to?")

    prompts: list[str] = []

    def on_request(request: Request) -> Answer:
        prompts.append(request.kind)
        return Answer(id=request.id, data="Oslo" if request.kind == "input" else None)

    options: dict[str, Any] = {"tools": [ship], "permissions": {"ship": "ask"}}
    assert outputs(await asked(call("ship"), on_request=on_request, **options)) == ["to Oslo"]
    assert prompts == ["approval", "input"]
    first = await asked(call("ship"), **options)
    async with Client(model=ScriptedModel(["end"]), builtins=False, **options) as client:
        second = await client.resume(first, [Answer(id=first.pending[0].id)])
        assert [r.kind for r in second.pending] == ["input"]
        third = await client.resume(second, [Answer(id=second.pending[0].id, data="Rome")])
    assert outputs(third) == ["to Rome"]


async def test_files_agents_and_servers_have_patterns_too(tmp_path: Path) -> None:
    """[PERM-09] `write(src/*)`, each file of a patch, `task(name)`; what has no telling argument is
    compared as JSON."""
    patch = "*** Begin Patch\n*** Add File: src/a\n+x\n*** Add File: other\n+y\n*** End Patch"
    rules = {"write": "deny", "write(src/*)": "allow", "apply_patch": "deny", "apply_patch(src/*)": "allow"}
    result = await asked(
        call("write", path="src/b", content="b"),
        call("write", path="b", content="b"),
        call("write", path="src/../c", content="c"),
        call("write", path=str(tmp_path / "src" / "d"), content="d"),
        call("apply_patch", patchText=patch),
        builtins=["write", "apply_patch"],
        workdir=tmp_path,
        permissions=rules,
    )
    assert [text.startswith("denied:") for text in outputs(result)] == [False, True, True, False, True]
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["b", "d", "src"]
    agents = [Agent(name="a", description="A."), Agent(name="b", description="B.")]
    async with Client(model=ScriptedModel(["x"]), agents=agents, permissions={"task(a)": "deny"}) as client:
        task = client.toolkit.get("task")
        assert task is not None and "- b" in task.description


@pytest.mark.parametrize(
    "rules", [{"bash": "maybe"}, {"deny": ["bash"]}, {"ba sh": "ask"}, {"bash(": "ask"}, {3: "ask"}, ["bash"]]
)
def test_a_rule_that_is_none_is_refused(rules: Any) -> None:
    """[PERM-10] Where it is written, with what is allowed; the same for an agent."""
    with pytest.raises(ConfigError, match="permissions"):
        Client(permissions=rules)
    with pytest.raises(ConfigError, match="agent 'a': permissions"):
        Agent(name="a", permissions=rules)
