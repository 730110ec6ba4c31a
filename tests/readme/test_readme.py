"""Everything that the README shows runs."""

import argparse
import ast
import asyncio
import importlib.util
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cli.helpers import PROGRAM
from tests.warm import Warm
from toolnexus import Client
from toolnexus.cli.main import main
from toolnexus.cli.parser import make_parser
from toolnexus.testing import ScriptedEndpoint, ScriptedModel, Turn, call, reply

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^```\n((?:make|toolnexus) .*?)^```", README, re.DOTALL | re.MULTILINE)


def run(warm: Warm, program: str, url: str, folder: Path, given: str = "") -> str:
    """Run a program of the README against a scripted endpoint."""
    environment = {"OPENAI_BASE_URL": url, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    done = warm.run(program, cwd=folder, env=environment, given=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_five_lines_answer_with_a_real_tool(warm: Warm, tmp_path: Path) -> None:
    """[DOC-01] The first program of the README runs as it stands."""
    (tmp_path / "sea.txt").write_text("TODO: count the whales")
    turns = [Turn(calls=[{"name": "grep", "args": {"pattern": "TODO"}}]), Turn(text="sea.txt: the whales")]
    with ScriptedEndpoint({"gpt-5-mini": turns}) as endpoint:
        assert run(warm, PROGRAMS[0], endpoint.url, tmp_path) == "sea.txt: the whales\n"
        assert "count the whales" in str(endpoint.requests[1].body)


def test_the_sub_agent_program_delegates_to_both(warm: Warm, tmp_path: Path) -> None:
    """[DOC-02] The second program delegates twice in one turn and prints usage by agent."""
    tasks = [
        {"name": "task", "args": {"agent": name, "prompt": f"you are {name}"}}
        for name in ("explore", "review")
    ]

    def answer(body: dict[str, Any]) -> Turn:
        text = str(body["messages"])
        if "Delegate both at once" not in text:
            return Turn(text="explored" if "you are explore" in text else "reviewed")
        return Turn(calls=tasks) if "explored" not in text else Turn(text="both are back")

    with ScriptedEndpoint(answer) as endpoint:
        out = run(warm, PROGRAMS[1], endpoint.url, tmp_path)
    assert out.startswith("done both are back\n")
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["main", "explore", "review"]


def test_the_streaming_lines_show_a_run_live() -> None:
    """[DOC-03] The third program prints path and type of each event, then the text."""
    lines: list[str] = []

    def note(*words: str) -> None:
        lines.append(" ".join(words))

    async def main() -> None:
        model = ScriptedModel([reply("", call("glob", pattern="*")), reply("in retry.py")])
        async with Client(model=model, builtins=["glob"]) as client:
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            code = compile(PROGRAMS[2], "README.md", "exec", flags=flags)
            await eval(code, {"client": client, "print": note})

    asyncio.run(main())
    assert lines[0] == "main run_started" and "main tool_result" in lines
    assert lines[-1] == "in retry.py" and len(PROGRAMS) == 6


def test_the_conversation_program_asks_keeps_and_refuses(warm: Warm, tmp_path: Path) -> None:
    """[DOC-07] The fourth program puts a question, keeps the conversation and lets its hook refuse."""
    turns = [
        Turn(calls=[{"name": "question", "args": {"questions": [{"question": "Title?"}]}}]),
        Turn(
            calls=[
                {"name": "write", "args": {"path": p, "content": "# Whales"}} for p in ("notes.md", ".env")
            ]
        ),
        Turn(text="begun"),
    ]
    with ScriptedEndpoint({"gpt-5-mini": turns}) as endpoint:
        assert run(warm, PROGRAMS[3], endpoint.url, tmp_path, given="Whales\n") == "Title?done begun 6\n"
        sent = str(endpoint.requests[2].body)
    assert "Whales" in str(endpoint.requests[1].body) and "not that file" in sent
    assert (tmp_path / "notes.md").read_text() == "# Whales" and not (tmp_path / ".env").exists()
    assert (tmp_path / "chat.db").exists()


def test_the_graph_program_loops_until_the_critic_is_content(warm: Warm, tmp_path: Path) -> None:
    """[DOC-17] The fifth program, a graph, hands what is wrong back to the writer."""
    said = ["It rains a lot", '{"good": false, "why": "Shorter."}', "Rain!", '{"good": true}']
    with ScriptedEndpoint({"gpt-5-mini": [Turn(text=text) for text in said]}) as endpoint:
        assert run(warm, PROGRAMS[4], endpoint.url, tmp_path) == "done Rain!\n"
        assert "Rain in Faro. Shorter." in str(endpoint.requests[2].body)


def test_the_test_program_is_a_test_that_passes(warm: Warm, tmp_path: Path) -> None:
    """[DOC-08] The sixth program is a test as pytest runs it."""
    run(warm, f"{PROGRAMS[5]}\ntest_the_model_gets_the_sum()", "http://127.0.0.1:9", tmp_path)


def test_the_extras_that_the_readme_installs_exist() -> None:
    """[DOC-09] What the install section names is in the package's metadata."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.findall(r"^pip install '\.\[(.*)\]'$", README, re.MULTILINE)
    assert named and all(name in extras for line in named for name in line.split(","))


def test_the_document_that_the_readme_shows_passes_the_check(warm: Warm, tmp_path: Path) -> None:
    """[DOC-10] With the files that it names beside it."""
    (shown,) = re.findall(r"^```toml\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    (tmp_path / "toolnexus.toml").write_text(shown)
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"files": {"command": "files-server"}}}')
    (tmp_path / "skills").mkdir()
    agents = tmp_path / ".claude" / "agents"
    agents.mkdir(parents=True)
    (agents / "scout.md").write_text("---\nname: scout\ndescription: Looks.\nmodel: haiku\n---\nYou look.\n")
    known = {"OPENAI_API_KEY": "sk-0123456789"}
    done = warm.run(PROGRAM, "config", "check", "toolnexus.toml", cwd=tmp_path, env=known)
    assert (done.returncode, done.stdout, done.stderr) == (0, "toolnexus.toml: ok\n", "")


@pytest.mark.parametrize("line", [line for block in COMMANDS for line in block.splitlines() if line.strip()])
def test_every_command_exists(line: str) -> None:
    """[DOC-04] Each target of make and each command of toolnexus that the README names is there."""
    program, word = line.split()[:2]
    if program == "make":
        assert re.search(rf"^{word}:.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    else:
        with pytest.raises(SystemExit) as end:
            main([word, "--help"])
        assert end.value.code == 0


def test_the_page_of_commands_names_every_command_and_option() -> None:
    """[DOC-04] docs/cli.md has them all, and no other."""
    page = (ROOT / "docs" / "cli.md").read_text()
    options: set[str] = set()
    commands: set[str] = set()

    def walk(parser: argparse.ArgumentParser, name: str) -> None:
        for action in parser._actions:
            options.update(option for option in action.option_strings if option.startswith("--"))
            choices: Any = action.choices
            if isinstance(choices, dict):  # its commands
                for word, below in cast("dict[str, argparse.ArgumentParser]", choices).items():
                    walk(below, f"{name} {word}".strip())
        if parser.get_default("module"):
            commands.add(name)

    walk(make_parser(), "")
    assert set(re.findall(r"--[a-z][a-z-]*", page)) == options
    rows = re.findall(r"^\| `([a-z ]+?)(?: \[?[A-Z].*?)?` \|", page, re.MULTILINE)
    assert sorted(rows) == sorted(commands)


def test_the_picture_is_what_the_demo_shows(warm: Warm) -> None:
    """[DOC-05] Names, states and words of the picture are those of a run made now."""
    spec = importlib.util.spec_from_file_location("picture", Path(__file__).with_name("picture.py"))
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.shape(tool.shown()) == tool.shape(tool.tree_of(warm.run(PROGRAM, "demo", "--plain").stdout))


def test_links_lead_somewhere() -> None:
    """[DOC-06] Every relative link of README, contract and docs: to a file, or to a heading in it."""
    broken: list[str] = []
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("spec/*.md"),
        *ROOT.glob("docs/**/*.md"),
    ]:
        for link in re.findall(r"\]\(([^)\s:]+)\)", page.read_text()):
            target, _, heading = link.partition("#")
            file = page.parent / target if target else page
            if not file.exists() or (heading and heading not in anchors(file)):
                broken.append(f"{page.name}: {link}")
    assert not broken


@cache
def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
