"""Which files are agents, and what is said when they are not."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.agent_files.helpers import REVIEWER, header, said, write
from toolnexus import Agent, ConfigError, NameConflict
from toolnexus.agents.files import MOST_BYTES, MOST_SHOWN, load_agents, read_agents


def names(*paths: str | Path) -> list[str]:
    return [agent.name for agent in read_agents(paths).agents]


def test_a_file_is_an_agent(tmp_path: Path) -> None:
    """[AF-01] Name, description and tools come from its header, the system prompt is the rest, trimmed."""
    files = read_agents([write(tmp_path, {"any-name.md": REVIEWER})], models={"sonnet": "anthropic:s"})
    assert files.agents == (
        Agent(
            name="reviewer",
            description="Reads a change and says what is wrong with it. Use it after every change.",
            system_prompt="You review changes.\n\n"
            "1. Read the files that changed.\n2. Name what is wrong, with file and line.",
            tools=["read", "grep", "glob"],
            model="anthropic:s",
        ),
    )
    assert files.places == {"reviewer": str(tmp_path / "any-name.md")}
    assert files.report == ()


def test_our_own_names_work_as_well(tmp_path: Path) -> None:
    """[AF-01] Keys and tools as `Agent` and the builtins call them, functions and globs of the host too."""
    lines = ["tools: [read, lookup, 'github_*']", "agents: [helper]", "model: openai:m", "max_turns: 7"]
    files = read_agents([write(tmp_path, {"x.md": header(*lines)})])
    assert files.agents == (
        Agent(
            name="x",
            description="What it does.",
            system_prompt="Do it.",
            tools=["read", "lookup", "github_*"],
            agents=["helper"],
            model="openai:m",
            max_turns=7,
        ),
    )
    assert files.report == ()


def test_a_folder_is_searched_at_any_depth_and_gives_agents_by_name(tmp_path: Path) -> None:
    """[AF-02] Sorted by name, whatever the files are called; files and folders may be mixed."""
    write(
        tmp_path,
        {
            "team/1.md": header(name="zoe"),
            "team/deep/er/2.MD": header(name="adam"),
            "single.md": header(name="mia"),
        },
    )
    assert names(str(tmp_path / "team"), tmp_path / "single.md") == ["adam", "mia", "zoe"]


def test_what_is_hidden_odd_or_something_else_is_passed_over(tmp_path: Path) -> None:
    """[AF-02] Hidden files and folders, `node_modules`, other endings, a pipe that would block for ever."""
    write(
        tmp_path,
        {
            "a.md": header(name="a"),
            ".hidden.md": "---\nbroken",
            ".git/b.md": "---\nbroken",
            "node_modules/pkg/c.md": "---\nbroken",
            "d.md~": "---\nbroken",
            "e.txt": "---\nbroken",
            "folder.md/f.md": header(name="f"),
        },
    )
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "dangling.md").symlink_to("nowhere")
    (tmp_path / "itself.md").symlink_to("itself.md")
    files = read_agents([tmp_path])
    assert [agent.name for agent in files.agents] == ["a", "f"]
    assert said(files, tmp_path) == [
        "dangling.md: it is no regular file",
        "itself.md: it is no regular file",
        "pipe.md: it is no regular file",
    ]


def test_a_path_that_is_hidden_itself_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[AF-02] `.claude/agents` and `~` work."""
    write(tmp_path, {".claude/agents/a.md": header(name="a")})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    files = read_agents([".claude/agents"])
    assert files.places == {"a": str(tmp_path / ".claude" / "agents" / "a.md")}
    assert read_agents(["~/.claude/agents"]).places == files.places


def test_one_file_is_one_agent_however_it_is_reached(tmp_path: Path) -> None:
    """[AF-02] Folders given twice, nested or linked, and circles of links, give no name twice."""
    write(tmp_path, {"team/a.md": header(name="a"), "team/sub/b.md": header(name="b")})
    (tmp_path / "team" / "sub" / "back").symlink_to(tmp_path / "team")
    (tmp_path / "team" / "again.md").symlink_to(tmp_path / "team" / "a.md")
    (tmp_path / "link").symlink_to(tmp_path / "team")
    files = read_agents([tmp_path / "team", tmp_path / "team", tmp_path / "link", tmp_path / "team" / "a.md"])
    assert [agent.name for agent in files.agents] == ["a", "b"]
    assert files.report == ()


def test_markdown_without_a_header_is_no_agent(tmp_path: Path) -> None:
    """[AF-03] In a folder it is passed over and told; named outright it is an error."""
    write(tmp_path, {"README.md": "# Our agents\n", "empty.md": "", "a.md": header(name="a")})
    files = read_agents([tmp_path])
    assert [agent.name for agent in files.agents] == ["a"]
    assert said(files, tmp_path) == [
        "README.md: it has no front matter, so it is no agent",
        "empty.md: it has no front matter, so it is no agent",
    ]
    with pytest.raises(ConfigError, match=r"README\.md: it has no front matter"):
        read_agents([tmp_path / "README.md"])


def test_a_folder_without_markdown_is_told(tmp_path: Path) -> None:
    """[AF-03] A wrong folder does not look like one without agents."""
    files = read_agents([tmp_path])
    assert (files.agents, files.report) == ((), (f"{tmp_path}: it holds no file of an agent",))


def test_everything_that_is_wrong_is_one_error(tmp_path: Path) -> None:
    """[AF-04] A line for each finding with file and key: paths, headers, missing keys, wrong types."""
    write(
        tmp_path,
        {
            "a.md": "---\nname: a\n---\nbody",
            "b.md": "---\ndescription: ''\nmaxTurns: many\n---\nbody",
            "c.md": "---\nname: c\nno end",
            "d.md": header("tools: {Read: true}", "agents: {x: y}", "disallowedTools: {a: b}", "model: [m]"),
            "e.md": b"---\nname: \xff\n---\n",
            "f.md": header(name="n" * 65),
            "g.md": header(name='"two\\nlines"'),
            "fine.md": header(name="fine"),
            "notes.txt": "",
        },
    )
    with pytest.raises(ConfigError) as caught:
        read_agents([tmp_path, tmp_path / "nowhere", "", tmp_path / "notes.txt"])
    lines = [line.removeprefix(f"{tmp_path}/") for line in str(caught.value).splitlines()]
    assert lines == [
        "a.md: description: it is missing; say when to use the agent",
        "b.md: name: it is missing; others delegate to an agent by its name",
        "b.md: description: it is missing; say when to use the agent",
        "b.md: maxTurns: give a whole number of 1 or more",
        "c.md: front matter: the front matter has no closing line '---'",
        "d.md: model: give a text",
        "d.md: agents: give names of agents: a list, or a text with commas",
        "d.md: tools: give names of tools: a list, or a text with commas",
        "d.md: disallowedTools: give names of tools: a list, or a text with commas",
        "e.md: it cannot be read: it is not UTF-8 at byte 10",
        "f.md: name: a name is one line of 1 to 64 characters",
        "g.md: name: a name is one line of 1 to 64 characters",
        "nowhere: it does not exist, or may not be looked at",
        "'': it does not exist, or may not be looked at",
        "notes.txt: its name does not end in .md, .toml or .json, as those of agents do",
    ]


def test_very_many_findings_are_cut(tmp_path: Path) -> None:
    """[AF-04] A folder of something else does not fill the screen."""
    write(tmp_path, {f"{n:03}.md": "---\ntitle: a page\n---\n" for n in range(100)})
    with pytest.raises(ConfigError) as caught:
        read_agents([tmp_path])
    lines = str(caught.value).splitlines()
    assert len(lines) == MOST_SHOWN + 1
    assert lines[-1] == f"… and {200 - MOST_SHOWN} more"


def test_a_name_that_is_given_twice_names_both_files(tmp_path: Path) -> None:
    """[AF-05] Always, across folders too; no file wins by its place."""
    write(tmp_path, {"user/a.md": header(name="same"), "project/b.md": header(name="same")})
    with pytest.raises(NameConflict) as caught:
        read_agents([tmp_path / "project", tmp_path / "user"])
    assert str(caught.value) == (
        f"{tmp_path}/user/a.md: name: 'same' is the agent of {tmp_path}/project/b.md already"
    )


def test_a_name_that_is_given_twice_is_told_beside_other_errors(tmp_path: Path) -> None:
    """[AF-05] Also when one of the files is wrong in another way."""
    write(tmp_path, {"a.md": header(name="same"), "b.md": header("maxTurns: 0", name="same")})
    with pytest.raises(ConfigError) as caught:
        read_agents([tmp_path])
    assert [line.partition(": ")[2].partition(":")[0] for line in str(caught.value).splitlines()] == [
        "maxTurns",
        "name",
    ]


@pytest.mark.parametrize("content", ["\ufeff{}", "{crlf}", "\ufeff{crlf}"])
def test_files_of_every_editor_read_the_same(tmp_path: Path, content: str) -> None:
    """[AF-06] A byte order mark and CRLF."""
    text = content.format(REVIEWER, crlf=REVIEWER.replace("\n", "\r\n"))
    plain = read_agents([write(tmp_path / "plain", {"a.md": REVIEWER})])
    assert read_agents([write(tmp_path / "odd", {"a.md": text})]).agents == plain.agents


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"---\nname: a\ndescription: caf\xe9\n---\n", "it cannot be read: it is not UTF-8 at byte 28"),
        (REVIEWER.encode("utf-16"), "it cannot be read: it is not UTF-8 at byte 0"),
        (REVIEWER.encode() + b"x" * MOST_BYTES, "it cannot be read: it is larger than 1,048,576 bytes"),
    ],
)
def test_a_file_that_is_no_text_or_huge_is_an_error(tmp_path: Path, content: bytes, says: str) -> None:
    """[AF-06] It is never half read."""
    with pytest.raises(ConfigError) as caught:
        read_agents([write(tmp_path, {"a.md": content})])
    assert str(caught.value) == f"{tmp_path}/a.md: {says}"


def test_a_file_without_a_prompt_is_an_agent_and_told(tmp_path: Path) -> None:
    """[AF-06] Its system prompt is empty."""
    files = read_agents([write(tmp_path, {"a.md": header(body=" \n\n")})])
    assert files.agents[0].system_prompt == ""
    assert said(files, tmp_path) == ["a.md: body: it is empty: the agent has no system prompt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_an_error(tmp_path: Path) -> None:
    """[AF-04] An agent does not vanish because of a wrong mode."""
    write(tmp_path, {"a.md": REVIEWER, "sub/b.md": REVIEWER})
    (tmp_path / "a.md").chmod(0)
    (tmp_path / "sub").chmod(0)
    try:
        with pytest.raises(ConfigError) as caught:
            read_agents([tmp_path])
    finally:
        (tmp_path / "sub").chmod(0o755)
    assert [line.removeprefix(f"{tmp_path}/") for line in str(caught.value).splitlines()] == [
        "sub: it cannot be read: Permission denied",
        "a.md: it cannot be read: Permission denied",
    ]


def test_a_name_of_a_file_that_no_text_can_carry_stays_on_one_line(tmp_path: Path) -> None:
    """[AF-04] Line breaks and bytes that are not UTF-8 are escaped."""
    os.mkdir(os.fsencode(tmp_path) + b"/odd\n\xff")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\n\xff")) / "a.md").write_text("no header")
    (line,) = read_agents([tmp_path]).report
    assert line == f"{tmp_path}/odd\\n\\udcff/a.md: it has no front matter, so it is no agent"


def test_loading_logs_the_report(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """[AF-07] Once, a line each, as warnings of `toolnexus.agents`; reading alone logs nothing."""
    write(tmp_path, {"a.md": header("hooks: {Stop: []}", "tools: WebSearch", name="a"), "b.md": "# b"})
    with caplog.at_level(logging.DEBUG):
        report = read_agents([tmp_path]).report
        assert not caplog.records
        agents = load_agents(tmp_path)
    assert [agent.name for agent in agents] == ["a"]
    assert [(r.name, r.levelname, r.getMessage()) for r in caplog.records] == [
        ("toolnexus.agents", "WARNING", line) for line in report
    ]
    assert len(report) == 3


LOAD: Any = load_agents


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: LOAD(), "needs a file or a folder"),
        (lambda: LOAD(3), "path=3 (int)"),
        (lambda: read_agents("agents"), "paths='agents' (str)"),
        (lambda: LOAD("x", models="haiku"), "models='haiku' (str)"),
        (lambda: LOAD("x", models={"haiku": None}), "models['haiku']=None"),
    ],
)
def test_options_of_the_wrong_type_are_told(call: Any, says: str) -> None:
    """[AF-07] Before anything is read."""
    with pytest.raises(ConfigError) as caught:
        call()
    assert says in str(caught.value)


def test_no_path_is_no_agent() -> None:
    """[AF-07] A program may have none."""
    files = read_agents([])
    assert (files.agents, files.places, files.report) == ((), {}, ())
