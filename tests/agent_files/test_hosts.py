"""Agents as other hosts write them down, each file written as its host documents it."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agent_files.helpers import write
from toolnexus import Agent, Client, ConfigError, NameConflict, load_agents
from toolnexus.agents.files import read_agents
from toolnexus.agents.format import Written
from toolnexus.agents.opencode import read_opencode_document
from toolnexus.core.usage import Budget
from toolnexus.testing import ScriptedModel
from toolnexus.tools.builtin.catalog import builtin_tools
from toolnexus.tools.permissions import VERDICTS, Rules


def one(folder: Path, place: str, text: str, **models: str) -> tuple[Agent, list[str]]:
    """The agent of one file at `place`, and what is said of it, without the path."""
    files = read_agents([write(folder, {place: dedent(text)}) / place], models=models)
    (agent,) = files.agents
    return agent, [line.removeprefix(f"{folder / place}: ") for line in files.report]


def refused(folder: Path, place: str, text: str) -> str:
    with pytest.raises(ConfigError) as error:
        read_agents([write(folder, {place: dedent(text)}) / place])
    return str(error.value).removeprefix(f"{folder / place}: ")


def left_out(folder: Path, place: str, text: str) -> tuple[str, ...]:
    files = read_agents([write(folder, {place: dedent(text)}) / place])
    assert files.agents == ()
    return files.report


OPENCODE_V1 = """\
    ---
    description: Reviews code for quality
    mode: subagent
    model: anthropic/claude-sonnet-5
    temperature: 0.1
    steps: 12
    color: "#ff6b6b"
    hidden: true
    permission:
      edit: deny
      bash:
        "*": ask
        "git diff*": allow
        "git push *": deny
      webfetch: deny
      doom_loop: ask
    ---
    You review code.
    """


def test_an_agent_of_opencode_version_1_loads(tmp_path: Path) -> None:
    """[AF-40] [AF-41] Its place is its name; its table of permissions is one of ours."""
    agent, said = one(tmp_path, ".opencode/agents/review.md", OPENCODE_V1)
    assert (agent.name, agent.description) == ("review", "Reviews code for quality")
    assert (agent.model, agent.max_turns) == ("anthropic:claude-sonnet-5", 12)
    assert agent.system_prompt == "You review code."
    assert agent.permissions == {
        "edit": "deny",
        "write": "deny",
        "apply_patch": "deny",
        "bash": "ask",
        "bash(git diff*)": "allow",
        "bash(git push *)": "deny",
        "bash(git push)": "deny",
        "webfetch": "deny",
    }
    assert said == [
        "temperature: set it on the model, with params=",
        "permission: doom_loop is left out: a model that repeats itself is told so",
    ]


OPENCODE_V2 = {
    "$schema": "https://opencode.ai/config.json",
    "model": "anthropic/claude-sonnet-5",
    "permissions": [{"action": "bash", "resource": "rm *", "effect": "deny"}],
    "agents": {
        "team/reviewer": {
            "description": "Reviews",
            "system": "You review.",
            "model": "openai/gpt-5-mini#high",
            "permissions": [
                {"action": "*", "resource": "*", "effect": "allow"},
                {"action": "edit", "resource": "*", "effect": "deny"},
                {"action": "bash", "resource": "git *", "effect": "allow"},
            ],
        },
        "off": {"description": "x", "disabled": True},
        "build": {"mode": "primary"},
    },
}


def test_a_document_of_opencode_version_2_loads(tmp_path: Path) -> None:
    """[AF-40] [AF-41] With comments; rules of the document hold for each agent; the rest is told."""
    text = "// mine\n" + json.dumps(OPENCODE_V2)
    agent, said = one(tmp_path, "opencode.jsonc", text)
    assert (agent.name, agent.model, agent.system_prompt) == (
        "team/reviewer",
        "openai:gpt-5-mini",
        "You review.",
    )
    assert agent.origin == f"{tmp_path / 'opencode.jsonc'}: agents.team/reviewer"
    assert agent.permissions == {
        "bash(rm *)": "deny",
        "bash(rm)": "deny",
        "*": "allow",
        "edit": "deny",
        "write": "deny",
        "apply_patch": "deny",
        "bash(git *)": "allow",
    }
    assert said == [
        "agents.team/reviewer: model: the variant is not carried over: set it on the model, with params=",
        "agents.off: disabled: the agent is left out: its file says so",
        "agents.build: mode: the agent is left out: a primary agent is for a person to choose, "
        "not to delegate to",
        "'model': beside the agents; servers go into Client(mcp=…)",
    ]


def test_a_document_of_opencode_version_1_loads(tmp_path: Path) -> None:
    """[AF-40] [AF-42] The key is `agent`; the old table of tools denies what is off."""
    document = {
        "agent": {
            "look": {"description": "d", "prompt": "p", "tools": {"write": False, "bash": False}},
            "only": {"description": "d", "prompt": "p", "tools": {"*": False, "read": True, "lsp": True}},
        }
    }
    path = write(tmp_path, {"opencode.json": json.dumps(document)}) / "opencode.json"
    files = read_agents([path])
    look, only = files.agents
    assert isinstance(look.tools, dict) and only.tools == ["read"]
    assert set(look.tools["builtins"]) == {"edit", "write", "apply_patch", "bash"}
    assert files.report == (f"{path}: agent.only: tools: lsp is left out: there is no such tool here",)
    Client(model=ScriptedModel([]), agents=files.agents).close()


@pytest.mark.parametrize(
    ("permission", "ours"),
    [
        ("deny", {"*": "deny"}),
        ({"bash": {"git push *": "allow", "*": "deny"}}, {"bash": "deny"}),
        ({"bash": "deny", "*": "allow"}, {"bash": "deny", "*": "allow"}),
        (
            {"bash": {"git push*": "allow", "git *": "ask"}},
            {"git push*": "ask", "git *": "ask", "git": "ask"},
        ),
        ({"bash": {"rm *": "deny", "git *": "allow"}}, {"rm *": "deny", "rm": "deny", "git *": "allow"}),
        ({"bash": {"git [x] *": "deny"}}, {"git [[]x] *": "deny", "git [[]x]": "deny"}),
        ({"read": {"~/keys/*": "deny"}}, {"read": "deny"}),
        ({"read": {"~/notes/*": "allow"}}, None),
        ({"task": {"*": "deny", "helper": "allow"}}, {"task": "deny", "task(helper)": "allow"}),
        ({"srv_*": {"x*": "deny"}}, {"srv_*": "deny"}),
        ({"external_directory": "deny", "lsp": "allow"}, None),
    ],
)
def test_where_the_last_match_wins_nothing_is_laxer_here(
    tmp_path: Path, permission: Any, ours: dict[str, str] | None
) -> None:
    """[AF-41] There the last match wins, here the closest one: in any doubt the stricter word."""
    document = {"agent": {"x": {"description": "d", "prompt": "p", "permission": permission}}}
    agent, _ = one(tmp_path, "opencode.json", json.dumps(document))
    if ours is not None:
        whole = ("*", "bash", "read", "task", "task(helper)", "srv_*")
        ours = {key if key in whole else f"bash({key})": verdict for key, verdict in ours.items()}
    assert agent.permissions == ours


WORDS = st.sampled_from(["*", "git *", "git push *", "git push", "g*", "*push*", "rm *", "rm", "git pu?h *"])
TABLES = st.lists(
    st.tuples(st.sampled_from(["*", "bash", "b*", "edit", "srv_x"]), WORDS, st.sampled_from(VERDICTS)),
    max_size=6,
)
COMMANDS = ("git push", "git push x", "git log", "rm x", "rm", "ls")


def last_match(lines: list[tuple[str, str, str]], command: str) -> str:
    """What opencode decides about a command; a blank and a star at the end are the bare command, too."""
    said = "allow"
    for tool, pattern, verdict in lines:
        patterns = (pattern, pattern.removesuffix(" *"))
        if fnmatchcase("bash", tool) and any(fnmatchcase(command, p) for p in patterns):
            said = verdict
    return said


@settings(max_examples=150, deadline=None)
@given(lines=TABLES)
def test_no_table_of_opencode_is_laxer_here(lines: list[tuple[str, str, str]]) -> None:
    """[AF-41] Whatever is written, in whatever order: for each command the same word or a stricter one."""
    written = [{"action": a, "resource": p, "effect": v} for a, p, v in lines]
    document = {"agents": {"x": {"description": "d", "system": "p", "permissions": written}}}
    found = read_opencode_document(Written(json.dumps(document), "x", {}))
    agent = found[0].agent
    assert agent is not None
    tool = next(tool for tool in builtin_tools() if tool.name == "bash")
    for command in COMMANDS:
        rule = Rules.of(agent.permissions, "x").decide(tool, {"command": command}, Path("/"))
        ours = rule.verdict if rule is not None else "allow"
        assert VERDICTS.index(ours) >= VERDICTS.index(last_match(lines, command)), (
            command,
            agent.permissions,
        )


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"permission": {"bash": "never"}}, "permission: bash: write one of allow, ask, deny"),
        ({"permission": {"b a": "deny"}}, "permission: 'b a' is no name of a tool"),
        ({"permissions": ["deny"]}, "permissions: each line is a table of action, resource, effect"),
        ({"permissions": [{"action": "bash", "effect": "deny", "when": "x"}]}, "permissions: each line is"),
        ({"tools": {"bash": "no"}}, "tools: give each tool true or false"),
        ({"mode": "sub"}, "mode: 'sub'; allowed are primary, subagent, all"),
        ({"steps": 0}, "steps: give a whole number of 1 or more"),
        ({"disable": "maybe"}, "disable: give true or false"),
        ({"prompt": "{file:./x.txt}"}, "prompt: no file is included; write the text of the prompt"),
        ({"prompt": "Be brief. {file:./x.txt}"}, "prompt: no file is included; write the text of the prompt"),
        ({"permision": {"bash": "deny"}}, "'permision': this key does not limit an agent"),
        ({"system": "twice"}, "prompt: it is given twice"),
    ],
)
def test_what_is_wrong_in_a_document_of_opencode_is_told(
    tmp_path: Path, keys: dict[str, Any], line: str
) -> None:
    """[AF-41] What would limit an agent and cannot be read is an error, with its place."""
    document = {"agent": {"x": {"description": "d", "prompt": "p", **keys}}}
    assert refused(tmp_path, "opencode.json", json.dumps(document)).startswith(f"agent.x: {line}")


VS_CODE = """\
    ---
    name: Planner
    description: Plans a change
    argument-hint: What to plan
    tools: ['search', 'fetch', 'githubRepo', 'github/*', 'db/query', 'agent']
    agents: ['Coder']
    model: ['Claude Sonnet 5 (copilot)', 'gpt-5-mini']
    user-invokable: false
    mcp-servers:
      db: {command: start-a-program}
    handoffs:
      - label: Start
        agent: Coder
        prompt: Do it.
    ---
    You plan.
    """


def test_an_agent_of_vs_code_loads(tmp_path: Path) -> None:
    """[AF-43] Sets of tools, tools of servers, delegates and a list of models."""
    agent, said = one(tmp_path, ".github/agents/planner.agent.md", VS_CODE, **{"gpt-5-mini": "openai:g"})
    assert (agent.name, agent.model, agent.agents) == ("Planner", "openai:g", ("Coder",))
    assert agent.tools == ["grep", "glob", "webfetch", "task", "github_*", "db_query"]
    assert said == [
        "argument-hint: its caller writes the prompt",
        "mcp-servers: servers belong to the client: Client(mcp=…)",
        "handoffs: who comes next is for its caller to say, or for a workflow",
        "model: 'gpt-5-mini' is taken of 2; for more in turn give a FallbackModel",
        "tools: githubRepo does not exist here and is left out",
    ]


@pytest.mark.parametrize(
    ("line", "tools"),
    [
        ("tools: ['*']", None),
        ("color: red", None),
        ("tools: []", []),
        ("tools: ['edit/editFiles', 'execute/runInTerminal']", ["edit", "write", "apply_patch", "bash"]),
        ("tools: ['usages', 'search/codebase']", []),
        ("tools: ['io.example/files/read']", ["files_read"]),
        ("tools: read, search", ["read", "grep", "glob"]),
        ("tools: [PowerShell, custom-agent]", ["bash", "task"]),
        *((f"tools: [{name}]", ["edit", "write", "apply_patch"]) for name in ("Write", "NotebookEdit")),
    ],
)
def test_tools_of_vs_code(tmp_path: Path, line: str, tools: Any) -> None:
    """[AF-43] None given and `*` are all; a name of nothing here is left out, never more."""
    agent, _ = one(tmp_path, "x.agent.md", f"---\ndescription: d\n{line}\n---\np")
    assert (agent.name, agent.tools) == ("x", tools)


def test_agents_of_a_user_are_read_like_those_of_a_project(tmp_path: Path) -> None:
    """[AF-40] Where GitHub Copilot and Gemini CLI keep them."""
    text = "---\nname: x\ndescription: d\ntools: [execute]\n---\np"
    assert one(tmp_path, ".copilot/agents/x.md", text)[0].tools == ["bash"]
    text = text.replace("execute", "run_shell_command")
    agent, _ = one(tmp_path, ".config/gemini-cli/agents/x.md", text)
    assert (agent.tools, agent.agents) == (["bash"], ())


@pytest.mark.parametrize("line", ["disable-model-invocation: true", "infer: false"])
def test_an_agent_that_a_model_may_not_call_is_left_out(tmp_path: Path, line: str) -> None:
    """[AF-43] Agents here are whom a model delegates to."""
    report = left_out(tmp_path, "x.agent.md", f"---\ndescription: d\n{line}\n---\np")
    assert report[0].endswith("the agent is left out: a model may not delegate to it, its file says")


def test_an_agent_of_cursor_loads(tmp_path: Path) -> None:
    """[AF-44] `readonly` denies what changes files and commands, for everything below as well."""
    text = """\
        ---
        name: verifier
        description: Checks work
        model: fast
        readonly: true
        is_background: true
        ---
        You check.
        """
    agent, said = one(tmp_path, ".cursor/agents/verifier.md", text)
    assert isinstance(agent.tools, dict) and agent.model is None
    assert agent.tools["builtins"] == dict.fromkeys(("edit", "apply_patch", "write", "bash"), False)
    assert [line.partition(":")[0] for line in said] == ["is_background", "readonly", "model"]
    with Client(model=ScriptedModel([]), agents=[agent]) as client:
        assert not {"edit", "write", "apply_patch", "bash"} & {*client.tools_of(agent).names()}
        assert "read" in client.tools_of(agent).names()


CODEX = """\
    name = "explorer"
    description = "Explores"
    developer_instructions = "You explore."
    model = "gpt-5-mini"
    model_reasoning_effort = "low"
    sandbox_mode = "MODE"
    nickname_candidates = ["Ada"]

    [mcp_servers.docs]
    command = "start-a-program"
    """


@pytest.mark.parametrize(
    ("mode", "is_denied"), [("read-only", True), ("workspace-write", False), ("danger-full-access", False)]
)
def test_an_agent_of_codex_loads(tmp_path: Path, mode: str, is_denied: bool) -> None:
    """[AF-45] TOML; a sandbox that only reads is denials, a wider one gives nothing; nobody is below it."""
    agent, said = one(tmp_path, ".codex/agents/e.toml", CODEX.replace("MODE", mode))
    assert (agent.name, agent.system_prompt, agent.model) == ("explorer", "You explore.", "gpt-5-mini")
    assert (agent.agents, agent.tools is not None) == ((), is_denied)
    assert [line.partition(":")[0] for line in said] == [
        "model_reasoning_effort",
        "mcp_servers",
        "sandbox_mode",
    ]


def test_what_is_wrong_in_an_agent_of_codex_is_told(tmp_path: Path) -> None:
    """[AF-45] A key that must be there, an unknown sandbox, and what is no TOML."""
    assert refused(tmp_path, "a.toml", 'name = "a"\ndescription = "d"').startswith("developer_instructions:")
    wild = CODEX.replace("MODE", "wild")
    assert "'wild'; allowed are read-only, workspace-write" in refused(tmp_path, "b.toml", wild)
    assert refused(tmp_path, "c.toml", "name = ").startswith("document: it does not parse")


def test_an_agent_of_gemini_loads(tmp_path: Path) -> None:
    """[AF-46] Turns and minutes are limits here; it delegates to nobody, as there."""
    text = """\
        ---
        name: security
        description: Finds holes
        kind: local
        tools:
          - read_file
          - grep_search
          - mcp_github_*
          - mcp_*
          - google_web_search
        model: gemini-3-flash
        temperature: 0.2
        max_turns: 10
        timeout_mins: 5
        ---
        You look for holes.
        """
    agent, said = one(tmp_path, ".gemini/agents/security.md", text)
    assert (agent.tools, agent.agents) == (["read", "grep", "github_*"], ())
    assert (agent.max_turns, agent.budget) == (10, Budget(seconds=300))
    assert agent.model == "gemini-3-flash"
    assert said == [
        "temperature: set it on the model",
        "tools: mcp_* does not exist here and is left out",
        "tools: google_web_search does not exist here and is left out",
    ]


def test_a_remote_agent_of_gemini_is_left_out(tmp_path: Path) -> None:
    """[AF-46] No address of a file is called and no command in it is run, with the way to do it told."""
    ran = tmp_path / "ran"
    text = f"""\
        ---
        name: far
        description: Far away
        kind: remote
        agent_card_url: https://example.com/card
        auth: {{type: http, scheme: Bearer, token: "!touch {ran}"}}
        ---
        """
    report = left_out(tmp_path, ".gemini/agents/far.md", text)
    assert "RemoteAgent(name=…, card=…)" in report[-1] and not ran.exists()
    assert "touch" not in "".join(report)


def test_a_project_folder_gives_the_agents_of_every_host(tmp_path: Path) -> None:
    """[AF-47] Only the places of hosts are read; Markdown beside them is none of an agent."""
    plain = "---\nname: {}\ndescription: d\n---\np"
    files = {
        ".claude/agents/a.md": plain.format("a"),
        ".opencode/agents/team/b.md": plain.format("b"),
        "opencode.json": '{"agent": {"c": {"description": "d", "prompt": "p"}}, "theme": "x"}',
        ".github/agents/d.md": plain.format("d"),
        ".cursor/agents/e.md": plain.format("e"),
        ".codex/agents/f.toml": 'name = "f"\ndescription = "d"\ndeveloper_instructions = "p"',
        ".codex/agents/README.md": "no agent",
        ".gemini/agents/g.md": plain.format("g"),
        "README.md": "no agent",
        "docs/x.md": plain.format("no-agent"),
        "pyproject.toml": "[project]",
    }
    agents = load_agents(write(tmp_path, files))
    assert [agent.name for agent in agents] == ["a", "c", "d", "e", "f", "g", "team/b"]


def test_a_name_of_two_hosts_is_a_conflict(tmp_path: Path) -> None:
    """[AF-47] [AF-05] No host wins over another; name the folder that is meant."""
    plain = "---\nname: a\ndescription: d\n---\np"
    write(tmp_path, {".claude/agents/a.md": plain, ".cursor/agents/a.md": plain})
    with pytest.raises(NameConflict, match="is the agent of"):
        load_agents(tmp_path)
    assert len(load_agents(tmp_path / ".cursor/agents")) == 1


def test_a_document_of_any_size_is_read_in_its_time(tmp_path: Path) -> None:
    """[AF-41] More lines or agents than anybody writes by hand are refused."""
    line = {"action": "bash", "resource": "x", "effect": "deny"}
    many = {"agents": {"x": {"description": "d", "system": "p", "permissions": [line] * 101}}}
    assert "it has 101 lines; at most 100 are read" in refused(tmp_path, "opencode.json", json.dumps(many))
    crowd = {"agents": {str(n): {"description": "d"} for n in range(101)}}
    assert "at most 100 agents are read" in refused(tmp_path, "opencode.json", json.dumps(crowd))


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("agents/other/x.agent.md", "x"),
        (".github/agents/sub/x.agent.md", "sub/x"),
        (".opencode/agents/team/x.md", "team/x"),
        (".opencode/agent/x.md", "x"),
        (".config/opencode/agents/x.md", "x"),
    ],
)
def test_the_place_below_a_host_is_the_name(tmp_path: Path, place: str, name: str) -> None:
    """[AF-40] Folders of the same name elsewhere mean nothing."""
    agent, _ = one(tmp_path, place, "---\ndescription: d\n---\np")
    assert agent.name == name
