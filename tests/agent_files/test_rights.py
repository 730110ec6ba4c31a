"""What an agent from a file may use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agent_files.helpers import header, read, wrong
from toolnexus.agents.claude import read_claude_agent
from toolnexus.agents.claude.file import _KEYS
from toolnexus.agents.codex import read_codex_agent
from toolnexus.agents.cursor import read_cursor_agent
from toolnexus.agents.format import Written
from toolnexus.agents.gemini import read_gemini_agent
from toolnexus.agents.opencode import read_opencode_agent, read_opencode_document
from toolnexus.agents.vscode import read_vscode_agent
from toolnexus.core.names import model_names
from toolnexus.tools.claude_names import NOT_HERE, OURS


def rights(folder: Path, *lines: str) -> tuple[Any, Any]:
    agent, _ = read(folder, header(*lines))
    return agent.tools, agent.agents


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Read", "read"),
        ("Write", "write"),
        ("Edit", "edit"),
        ("MultiEdit", "edit"),
        ("Grep", "grep"),
        ("Glob", "glob"),
        ("LS", "glob"),
        ("Bash", "bash"),
        ("WebFetch", "webfetch"),
        ("TodoWrite", "todowrite"),
        ("AskUserQuestion", "question"),
        ("Skill", "skill"),
        ("Task", "task"),
        ("Agent", "task"),
        ("READ", "read"),
        ("webFetch", "webfetch"),
        ("read", "read"),
        ("apply_patch", "apply_patch"),
    ],
)
def test_tools_of_claude_code_have_names_here(tmp_path: Path, theirs: str, ours: str) -> None:
    """[AF-20] In any case of letters; our own names pass."""
    agent, said = read(tmp_path, header(f"tools: {theirs}"))
    assert (list(agent.tools or ()), said) == ([ours], [])


def test_the_page_has_every_name_and_key() -> None:
    """[AF-20] What `docs/agent-files.md` says of tools and keys is what is done."""
    page = (Path(__file__).parents[2] / "docs" / "agent-files.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    told = {name: right.strip() for left, right in rows for name in re.findall(r"`([^`]+)`", left)}
    assert {name: told.get(name) for name in OURS} == {name: f"`{ours}`" for name, ours in OURS.items()}
    assert all(f"`{key}`" in page for key in (*_KEYS.carried, *_KEYS.told, *_KEYS.silent))


@pytest.mark.parametrize("name", ["ls", "agent", "multiedit", "monitor", "lookup", "Lookup", "github_search"])
def test_a_name_in_small_letters_is_the_hosts(tmp_path: Path, name: str) -> None:
    """[AF-20] A function called `ls` is not taken for theirs; unknown names are left to the client."""
    assert rights(tmp_path, f"tools: {name}") == ([name], None)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("mcp__github__search_issues", "github_search_issues"),
        ("mcp__my-db__query", "my-db_query"),
        ("mcp__github", "github_*"),
        ("mcp__github__*", "github_*"),
        ("mcp__github__get_*", "github_get_*"),
        ("mcp__s__deep__name", "s_deep__name"),
    ],
)
def test_tools_of_servers_have_their_final_names(tmp_path: Path, theirs: str, ours: str) -> None:
    """[AF-21] A server alone is all of its tools."""
    assert rights(tmp_path, f"tools: [{theirs!r}]") == ([ours], None)


def test_a_long_name_of_a_tool_of_a_server_is_the_one_that_it_gets_here(tmp_path: Path) -> None:
    """[AF-21] With the same hash."""
    server, tool = "a" * 40, "b" * 40
    (expected,) = model_names([(f"{server}_{tool}", f"{server}\0{tool}")])
    assert rights(tmp_path, f"tools: mcp__{server}__{tool}") == ([expected], None)


@pytest.mark.parametrize("name", ["mcp__*", "mcp__", "mcp____query", "mcp__git*", "mcp__*__query"])
def test_tools_of_any_server_are_not_granted(tmp_path: Path, name: str) -> None:
    """[AF-21] As a pattern they would hold tools that are no server's."""
    agent, said = read(tmp_path, header(f"tools: [Read, {name!r}]"))
    assert (list(agent.tools or ()), said) == (["read"], [f"tools: {name} names no server and is left out"])


@pytest.mark.parametrize("name", sorted(NOT_HERE))
def test_what_does_not_exist_here_is_left_out_and_told(tmp_path: Path, name: str) -> None:
    """[AF-22] The others stay."""
    agent, said = read(tmp_path, header(f"tools: Read, {name}"))
    assert (agent.tools, said) == (["read"], [f"tools: {name} does not exist here and is left out"])


@pytest.mark.parametrize(
    "line",
    [
        "tools:",
        "tools: ''",
        "tools: []",
        "tools: ' , '",
        "tools: WebSearch",
        "tools: Bash(git:*)",
        "tools: mcp__*",
    ],
)
def test_nothing_that_is_left_is_no_tools_and_never_all(tmp_path: Path, line: str) -> None:
    """[AF-22] Empty, or all of it left out: no tools, `task` included."""
    agent, _ = read(tmp_path, header(line))
    assert agent.tools == []
    assert not agent.scope.offers_task


def test_an_empty_key_is_told(tmp_path: Path) -> None:
    """[AF-22] Its author may have meant all; a list without entries is clear."""
    says = "tools: it is empty, so the agent has no tools; leave the key out for all of them"
    assert read(tmp_path, header("tools:"))[1] == [says]
    assert read(tmp_path, header("tools: []"))[1] == []


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["tools: '*'"],
        ["tools: *"],
        ["tools: [Read, '*']"],
        ["tools: null", "disallowedTools: ~", "agents: null"],
    ],
)
def test_without_the_key_or_with_a_star_it_is_all(tmp_path: Path, lines: list[str]) -> None:
    """[AF-22] Only these two say so; null is a key that is not given."""
    assert rights(tmp_path, *lines) == (None, None)


@pytest.mark.parametrize(
    "tool", ["Bash(git:*)", "Bash(git add *, git commit *)", "Read(./src/**)", "Skill(pdf)"]
)
def test_a_part_of_a_tool_is_left_out_and_told(tmp_path: Path, tool: str) -> None:
    """[AF-23] All of the tool would be more than the file grants."""
    agent, said = read(tmp_path, header(f"tools: Grep, {tool}, Glob"))
    assert agent.tools == ["grep", "glob"]
    name = tool.partition("(")[0]
    assert said == [f"tools: {name}(…) is left out: a part of it cannot be granted, and all would be more"]


def test_a_part_that_is_everything_is_the_tool(tmp_path: Path) -> None:
    """[AF-23] `Bash(*)`."""
    assert rights(tmp_path, "tools: Bash(*)") == (["bash"], None)


@pytest.mark.parametrize(
    "value",
    [
        "Read, Grep, Bash",
        "Read,Grep , Bash,",
        "Read Grep Bash",
        "[Read, Grep, Bash]",
        '["Read", "Grep", "Bash"]',
        '"Read", "Grep", "Bash"',
        "\n  - Read\n  - Grep\n  - Bash",
        "|\n  Read\n  Grep\n  Bash",
        "Read, Grep, Bash, Read",
    ],
)
def test_tools_are_a_text_or_a_list(tmp_path: Path, value: str) -> None:
    """[AF-24] With commas, blanks or lines; each tool once, in order."""
    assert rights(tmp_path, f"tools: {value}") == (["read", "grep", "bash"], None)


@pytest.mark.parametrize(
    "value", ["Agent(a, b), Read", "[Agent(a, b), Read]", "[Task(a), Task(b), Read, Agent]"]
)
def test_agents_in_brackets_are_those_that_it_may_delegate_to(tmp_path: Path, value: str) -> None:
    """[AF-25] `Agent(…)` and the older `Task(…)`, with commas inside, also in a list."""
    agent, said = read(tmp_path, header(f"tools: {value}"))
    assert (agent.agents, said) == (("a", "b"), [])
    assert set(agent.tools or ()) - {"task"} == {"read"}
    assert agent.scope.offers_task


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("a, b", ("a", "b")),
        ("a b", ("a", "b")),
        ("[a, 'b c']", ("a", "b c")),
        ("[]", ()),
        ("''", ()),
        ("'*'", None),
        ("null", None),
        ("~", None),
    ],
)
def test_the_key_agents_says_whom_as_well(tmp_path: Path, value: str, meant: Any) -> None:
    """[AF-25] A text with commas or blanks, or a list; `*` and null are everybody."""
    assert rights(tmp_path, f"agents: {value}") == (None, meant)


def test_of_two_lists_of_agents_both_count(tmp_path: Path) -> None:
    """[AF-25] Whoever is in one only is left out and told."""
    agent, said = read(tmp_path, header("tools: Agent(a, b)", "agents: [b, c]"))
    assert agent.agents == ("b",)
    assert said == ["agents: Agent(…) in tools names others; only those that both name are kept"]
    assert read(tmp_path, header("tools: Agent(a, b)", "agents: [b, a]"))[1] == []


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("Read, Bash(git", "the brackets do not match"),
        ("Read), Bash", "the brackets do not match"),
        ("['Write(', 'Read(', 'Glob)', 'Bash)']", "the brackets do not match"),
        ("Bash (git:*)", "'' is no name of a tool"),
        ("Read; Bash", "'Read;' is no name of a tool"),
        ("[[Read]]", "give names of tools: a list, or a text with commas"),
        ("[{Bash: x}]", "give names of tools: a list, or a text with commas"),
        ("search/codebase", "'search/codebase' is no name of a tool"),
        (", ".join(["Read"] * 501), "it names 501 tools; at most 500 are read"),
        ("Notebook*", "'Notebook*' is a pattern over names of Claude Code; write the names out"),
    ],
)
@pytest.mark.parametrize("key", ["tools", "disallowedTools"])
def test_what_is_no_name_of_a_tool_is_an_error(tmp_path: Path, key: str, value: str, says: str) -> None:
    """[AF-24] Nothing is guessed."""
    assert wrong(tmp_path, header(f"{key}: {value}")) == [f"{key}: {says}"]


def everywhere(*names: str) -> dict[str, dict[str, bool]]:
    """The denial of final names of tools that are no builtins."""
    return {kind: dict.fromkeys(names, False) for kind in ("mcp", "native")}


@pytest.mark.parametrize(
    ("value", "filters"),
    [
        ("Bash", {"builtins": {"bash": False}, **everywhere("Bash", "bash")}),
        ("[bash, Read]", {"builtins": {"bash": False, "read": False}, **everywhere("bash", "Read", "read")}),
        ("Agent", {"builtins": {"task": False}, **everywhere("Agent", "task")}),
        ("Skill", {"skills": {"*": False}, **everywhere("Skill", "skill")}),
        ("mcp__github__drop", {"mcp": {"github_drop": False}}),
        ("mcp__github", {"mcp": {"github_*": False}}),
        ("mcp__*", {"mcp": {"*_*": False}}),
        ("publish", everywhere("publish")),
        ("WebSearch", everywhere("WebSearch")),
        ("pub*", {"mcp": {"pub*": False}, "native": {"pub*": False}}),
        ("ba*", {"builtins": {"ba*": False}, "mcp": {"ba*": False}, "native": {"ba*": False}}),
        ("[]", None),
        ("", None),
    ],
)
def test_denied_tools_are_a_drop_list(tmp_path: Path, value: str, filters: Any) -> None:
    """[AF-26] All others stay. What is denied by name is denied whatever kind of tool is called so."""
    agent, said = read(tmp_path, header(f"disallowedTools: {value}"))
    assert (agent.tools, said) == (filters, [])


def test_all_tools_may_be_denied(tmp_path: Path) -> None:
    """[AF-26] `*` holds for every kind."""
    tools, _ = rights(tmp_path, "disallowedTools: '*'")
    assert tools == {kind: {"*": False} for kind in ("builtins", "skills", "mcp", "native")}


def test_a_denied_part_is_the_whole_tool(tmp_path: Path) -> None:
    """[AF-27] Fewer rights, and told; so is a denied agent when it is not known who there is."""
    agent, said = read(tmp_path, header("disallowedTools: Bash(rm:*), Agent(a)"))
    assert agent.tools == {
        "builtins": {"bash": False, "task": False},
        **everywhere("Bash", "bash", "Agent", "task"),
    }
    assert said == [
        "disallowedTools: Bash(…): all of bash is denied, not a part",
        "disallowedTools: Agent(…): all of task is denied, not a part",
    ]
    assert rights(tmp_path, "tools: Agent(a, b)", "disallowedTools: Agent(a)") == ([], ("b",))


@pytest.mark.parametrize("denied", ["Edit", "Write", "MultiEdit"])
def test_whoever_may_not_edit_may_not_patch(tmp_path: Path, denied: str) -> None:
    """[AF-27] `apply_patch` does what Edit and Write do."""
    assert rights(tmp_path, "tools: Read, apply_patch", f"disallowedTools: {denied}") == (["read"], None)


def test_denied_tools_are_taken_out_of_a_list(tmp_path: Path) -> None:
    """[AF-28] The denial below is told when there is somebody below."""
    agent, said = read(tmp_path, header("tools: Read, Bash, Write", "disallowedTools: Bash, Edit, write"))
    assert (agent.tools, said) == (["read"], [])
    agent, said = read(tmp_path, header("tools: Read, Bash, Task", "disallowedTools: Bash"))
    assert agent.tools == ["read", "task"]
    assert said == ["disallowedTools: beside tools it holds for this agent alone, not for those below it"]


def test_a_pattern_that_holds_something_denied_is_left_out(tmp_path: Path) -> None:
    """[AF-28] A list cannot take one tool out of a pattern."""
    agent, said = read(
        tmp_path, header("tools: Read, mcp__github, mcp__db", "disallowedTools: mcp__github__drop_it")
    )
    assert agent.tools == ["read", "db_*"]
    assert said == [
        "disallowedTools: 'github_*' holds 'github_drop_it' and is left out as a whole; "
        "name its tools one by one"
    ]
    assert rights(tmp_path, "tools: Read, mcp__db", "disallowedTools: mcp__db") == (["read"], None)
    assert rights(tmp_path, "tools: mcp__db__get_*", "disallowedTools: mcp__db__*_all") == ([], None)


def test_whoever_may_not_delegate_has_nobody(tmp_path: Path) -> None:
    """[AF-28] Also when `agents` names some."""
    assert rights(tmp_path, "tools: Read, Task", "agents: [a]", "disallowedTools: Task") == (["read"], ())


WORDS = st.sampled_from(
    [*OURS, *sorted(NOT_HERE)[:5], "read", "bash", "host_tool", "mcp__s__t", "mcp__s", "mcp__*", "*", "h*"]
)
SCOPES = st.sampled_from(["", "", "", "(*)", "(git:*)", "(a, b)"])
TOOLS = st.lists(st.builds(str.__add__, WORDS, SCOPES), max_size=5)


@settings(max_examples=150, deadline=None)
@given(tools=TOOLS, denied=TOOLS)
def test_no_file_grants_what_it_does_not_name(tools: list[str], denied: list[str]) -> None:
    """[AF-29] Whatever is written: a list holds only what stands in it whole, and nothing that is denied."""
    text = header(f"tools: {tools!r}", f"disallowedTools: {denied!r}")
    ((agent, remarks),) = [(one.agent, one.remarks) for one in read_claude_agent(Written(text, "x", {}))]
    if agent is None:
        assert remarks.wrong
        return
    if agent.tools is None:
        assert any(word in ("*", "*(*)") for word in tools)
        return
    if isinstance(agent.tools, dict):
        assert any(word in ("*", "*(*)") for word in tools)
        assert all(flag is False for filters in agent.tools.values() for flag in filters.values())
        return
    whole = {word.removesuffix("(*)") for word in tools if "(" not in word.removesuffix("(*)")}
    granted = {OURS.get(word, word) for word in whole} | {"s_t", "s_*"}
    assert set(agent.tools) <= granted
    delegates = ("Task(", "Agent(")
    refused = {OURS.get(n := w.partition("(")[0], n) for w in denied if not w.startswith(delegates)}
    assert not refused & set(agent.tools) and ("*" not in refused or agent.tools == [])
    assert "task" not in refused or agent.agents == ()


@settings(max_examples=150, deadline=None)
@given(
    text=st.one_of(
        st.text(), st.text(alphabet="-\n:[]{}\"'#*!&| abtools<example/>").map("---\nname: x\n{}".format)
    )
)
def test_no_text_breaks_the_reader(text: str) -> None:
    """[AF-29] It is an agent, or wrong with a reason, or none."""
    for read_text in (
        read_claude_agent,
        read_opencode_agent,
        read_opencode_document,
        read_vscode_agent,
        read_cursor_agent,
        read_codex_agent,
        read_gemini_agent,
    ):
        for found in read_text(Written(text, "x", {})):
            assert found.agent is None or not found.remarks.wrong
            assert all("\n" not in line for line in (*found.remarks.wrong, *found.remarks.lost))
