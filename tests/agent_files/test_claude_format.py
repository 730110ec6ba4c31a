"""The header of an agent in the format of Claude Code."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.agent_files.helpers import header, read, write, wrong
from toolnexus.agents.files import read_agents

MODELS = {"sonnet": "anthropic:claude-sonnet-5", "haiku": "anthropic:claude-haiku-4-5"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("inherit", None),
        ("", None),
        ("sonnet", "anthropic:claude-sonnet-5"),
        ("Sonnet", "anthropic:claude-sonnet-5"),
        ("openai:gpt-5-mini", "openai:gpt-5-mini"),
        ("claude-haiku-4-5", "claude-haiku-4-5"),
        ("gpt-5-mini", "gpt-5-mini"),
    ],
)
def test_a_model_is_an_alias_or_a_name(tmp_path: Path, written: str, meant: str | None) -> None:
    """[AF-10] `inherit` is the caller's, an alias what the host says, a full name is taken as it is."""
    agent, said = read(tmp_path, header(f"model: {written}"), MODELS)
    assert (agent.model, said) == (meant, [])


def test_the_host_may_say_what_any_name_means(tmp_path: Path) -> None:
    """[AF-10] Also a full name, and `inherit`."""
    models = {"claude-haiku-4-5": "openai:small", "inherit": "openai:big"}
    assert read(tmp_path, header("model: claude-haiku-4-5"), models)[0].model == "openai:small"
    assert read(tmp_path, header("model: inherit"), models)[0].model == "openai:big"


def test_an_alias_that_nobody_explains_is_the_callers_model_and_told(tmp_path: Path) -> None:
    """[AF-10] The line says how to explain it."""
    agent, said = read(tmp_path, header("model: opus"), MODELS)
    assert agent.model is None
    assert said == [
        "model: 'opus' is not known here, so the caller's model is used; "
        "say what it is with models={'opus': 'provider:name'}"
    ]


def test_the_size_of_a_context_window_is_told(tmp_path: Path) -> None:
    """[AF-10] `sonnet[1m]` is the alias without it."""
    agent, said = read(tmp_path, header("model: sonnet[1m]"), MODELS)
    assert agent.model == "anthropic:claude-sonnet-5"
    assert said == ["model: the size of the context window is not carried over"]


def test_what_has_no_meaning_here_is_told_by_its_key(tmp_path: Path) -> None:
    """[AF-11] One line each; a colour and an empty value lose nothing."""
    text = header(
        "permissionMode: plan",
        "skills:",
        "  - pdf-tools",
        "mcpServers:",
        "  - db: {command: npx, args: [server], env: {TOKEN: s3cret}}",
        "hooks:",
        "  PreToolUse:",
        "    - matcher: Bash",
        "      hooks: [{type: command, command: ./guard.sh}]",
        "memory: project",
        "background: true",
        "effort: high",
        "isolation: worktree",
        "initialPrompt: Look around.",
        "color: red",
    )
    _, said = read(tmp_path, text)
    assert [line.partition(":")[0] for line in said] == [
        "permissionMode",
        "skills",
        "mcpServers",
        "hooks",
        "memory",
        "background",
        "effort",
        "isolation",
        "initialPrompt",
    ]
    assert all(len(line.partition(": ")[2]) > 10 for line in said)
    assert read(tmp_path, header("skills: []", "hooks: {}", "memory:"))[1] == []


def test_an_unknown_key_is_told_with_the_nearest(tmp_path: Path) -> None:
    """[AF-11] It changes nothing."""
    agent, said = read(tmp_path, header("mode: inherit", "version: 2", "'odd\\nkey': 1"))
    assert agent.model is None
    assert said == [
        "'mode': unknown key; did you mean 'model'?",
        "'version': unknown key",
        "'odd\\\\nkey': unknown key",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "tool: Read",
        "tols: Read",
        "tooks: Read",
        "tolos: Read",
        "toolss: Read",
        "toolset: Read",
        "excludeTools: Bash",
        "blocked-tools: Bash",
        "forbiddenTools: [Bash]",
        "deniedTools: Bash",
        "denyTools: Bash",
        "disallowed: Bash",
        "deny: Bash",
        "Denied: [Bash]",
        "allow: Read",
        "agent: helper",
        "agnets: helper",
        "subagents: []",
        "maxturn: 3",
        "max_trns: 3",
        "<<: {tools: Read}",
        "allowed-tools: Read",
        "allowedTools: [Read]",
        "disallowed_tool: Bash",
        "disalowedTools: Bash",
        "readonly: true",
        "permission: {edit: deny}",
        "permissions: {bash: deny}",
    ],
)
def test_a_key_that_would_limit_the_agent_is_never_passed_over(tmp_path: Path, line: str) -> None:
    """[AF-12] Misspelt, or of another format: an error, for without it the agent could do more."""
    key = line.partition(":")[0]
    assert wrong(tmp_path, header(line)) == [
        f"{key!r}: this key does not limit an agent; write 'tools', 'disallowedTools', 'agents' or 'maxTurns'"
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ["tools: Read, Bash", "disallowedTools: Bash", "agents: [helper]", "maxTurns: 7"],
        ["Tools: Read, Bash", "disallowed-tools: Bash", "Agents: helper", "max-turns: 7"],
        ["TOOLS: Read, Bash", "disallowed_tools: Bash", "agents: helper", "max_turns: 7"],
        ["tools: Read, Bash", "DisallowedTools: Bash", "agents: helper", "MaxTurns: 7", "Color: red"],
    ],
)
def test_every_plain_spelling_of_a_key_is_that_key(tmp_path: Path, lines: list[str]) -> None:
    """[AF-15] Whatever its case, with hyphens or underscores."""
    agent, said = read(tmp_path, header(*lines))
    assert (agent.tools, agent.agents, agent.max_turns) == (["read"], ("helper",), 7)
    assert not any("unknown" in line for line in said)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["tools: Read", "tools: Bash"], "'tools': it is given twice; keep one"),
        (["max_turns: 3", "maxTurns: 4"], "maxTurns: it is given twice, in two spellings; keep one"),
        (
            ["disallowedTools: Bash", "disallowed-tools: Write"],
            "disallowed-tools: it is given twice, in two spellings; keep one",
        ),
        (["maxTurns: 0"], "maxTurns: give a whole number of 1 or more"),
        (["maxTurns: 3.5"], "maxTurns: give a whole number of 1 or more"),
        (["maxTurns: [3]"], "maxTurns: give a text"),
    ],
)
def test_what_could_mean_two_things_is_an_error(tmp_path: Path, lines: list[str], says: str) -> None:
    """[AF-12] No value wins in silence."""
    assert wrong(tmp_path, header(*lines)) == [says]


def file_of(description: str) -> str:
    return f"---\nname: x\n{description}\ntools: Read\n---\nbody\n"


ON_ONE_LINE = (
    "description: Use this agent when a migration was written: it looks for locks. Examples: "
    r'<example>Context: one is ready.\nuser: "I wrote it"\nassistant: "I will call x"</example>'
)
AS_A_BLOCK = dedent(
    """\
    description: |
      Use this agent when a migration was written. Examples:

      <example>
      Context: A migration is ready.
      user: "I wrote it: done"
      tools: all of them
      </example>"""
)
NOT_INDENTED = dedent(
    r"""
    description: Use this agent when a migration was written. Examples:\n\n<example>
    Context: A migration is ready.
    user: "I wrote it: done"
    <commentary>
    # It is time for a look: at locks
    - and at indexes
    </commentary>
    assistant: "I will call x"
    </example>

    <example>
    Context: Another one.
    </example>"""
).strip()


@pytest.mark.parametrize("description", [ON_ONE_LINE, AS_A_BLOCK, NOT_INDENTED])
def test_a_description_with_examples_loads_as_it_is_generated(tmp_path: Path, description: str) -> None:
    """[AF-13] On one line with colons, as a block, and over lines that are not indented."""
    agent, said = read(tmp_path, file_of(description))
    assert agent.description.startswith("Use this agent when a migration was written")
    assert "<example>" in agent.description and agent.description.endswith("</example>")
    assert r"\n" not in agent.description
    assert agent.tools == ["read"]
    assert said in ([], ["description: it is no valid YAML text and was taken as written; put it in quotes"])


def test_a_valid_block_is_not_touched(tmp_path: Path) -> None:
    """[AF-13] Line ends and indents of a description stay."""
    agent, said = read(tmp_path, file_of("description: |\n  One:\n\n    <example>\n    two\n  </example>"))
    assert (agent.description, said) == ("One:\n\n  <example>\n  two\n</example>", [])


@pytest.mark.parametrize(
    "description",
    [
        "description: Use it. <example>\nContext: a\nuser: b",
        "description: Use it.\n<example>\n<example>\nContext: a\n</example>",
        "description: Use it.\n<example>\nContext: a\nno end",
        "description: Use it. <example>\ntools: Read\nnote: the end </example>",
    ],
)
def test_an_example_without_an_end_hides_no_key(tmp_path: Path, description: str) -> None:
    """[AF-13] What stands below is either read, or the file is an error; `tools` never vanishes."""
    files = write(
        tmp_path, {"x.md": file_of(description).replace("tools: Read\n---", "disallowedTools: Bash\n---")}
    )
    try:
        (agent,) = read_agents([files]).agents
    except ValueError:
        return
    assert agent.tools not in (None, ())


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("description: Use when: the user asks", "Use when: the user asks"),
        ("description: [beta] finds: bugs", "[beta] finds: bugs"),
        ("description: >-\n  One\n  two", "One two"),
        ("description: 'it''s: fine'", "it's: fine"),
        ("description: 2026-01-31", "2026-01-31"),
    ],
)
def test_quirks_of_yaml_lose_nothing(tmp_path: Path, line: str, value: str) -> None:
    """[AF-13] As in skills: taken as written, and told."""
    agent, said = read(tmp_path, f"---\nname: x\n{line}\n---\nbody")
    assert agent.description == value
    assert all("put it in quotes" in entry for entry in said)


def test_nothing_in_a_file_is_run_or_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[AF-14] No variable, command, include or tag; the prompt is the text."""
    monkeypatch.setenv("SECRET", "s3cret")
    (tmp_path / "other.txt").write_text("included")
    body = "${SECRET} $SECRET ${env:SECRET} !`touch made` @other.txt $(touch made) {{ SECRET }}"
    text = header("model: !!python/object/apply:os.getcwd '${SECRET}:m'", body=body)
    agent, _ = read(tmp_path, text)
    assert agent.system_prompt == body
    assert agent.model == "${SECRET}:m"
    assert not list(tmp_path.rglob("made"))


def test_what_may_be_secret_is_in_no_line(tmp_path: Path) -> None:
    """[AF-14] Neither the report nor an error shows values of servers, hooks or brackets."""
    lines = [
        "mcpServers: {db: {env: {TOKEN: s3cret}}}",
        "hooks: {Stop: 'curl -H s3cret'}",
        "tools: Bash(curl -H s3cret)",
        "apiKey: s3cret",
    ]
    _, said = read(tmp_path, header(*lines))
    assert len(said) == 4 and "s3cret" not in "".join(said)
    bad = [*lines[:2], "tools: Read, Bash(curl -H s3cret", "maxTurns: s3cret", "disallowedTools: {a: s3cret}"]
    errors = wrong(tmp_path, header(*bad))
    assert len(errors) == 3 and "s3cret" not in "".join(errors)
