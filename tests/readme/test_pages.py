"""The pages of docs/ that have no test beside the code that they are about: what they show runs."""

import ast
import json
import os
import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import cli
from toolnexus.cli.parser import make_parser
from toolnexus.testing import ScriptedEndpoint, Turn, call

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
SERVER = f"""import runpy, sys
sys.argv = ["notes", "--names", '["find_notes"]']
runpy.run_path({str(ROOT / "tests/servers/rough_mcp.py")!r}, run_name="__main__")
"""
AGENT = "---\nname: scout\ndescription: Looks around.\n---\nYou look around.\n"
GIVEN = """
import toolnexus as _toolnexus

class page:
    async def screenshot():
        return b""

class my_archive:
    async def summarise(texts):
        return "notes"

class my_tokenizer:
    def count(messages):
        return len(messages)

def look(path: str) -> str:
    '''Look at a file.'''
    return "seen"

explore = _toolnexus.Agent(name="explore")
png = ""
"""
"""What the pages say is the reader's own."""


@dataclass
class Page:
    """`turns` are what models say, `files` what lies in the folder, `out` the printed lines."""

    name: str
    turns: list[Any] = field(default_factory=list[Any])
    files: dict[str, str] = field(default_factory=dict[str, str])
    out: list[str] = field(default_factory=list[str])
    then: str = ""
    """Run behind the programs of the page."""
    change: tuple[str, str] = ("", "")
    """A text in the programs, and what stands for it in this test."""

    @property
    def blocks(self) -> list[tuple[str, str]]:
        return fenced(DOCS / f"{self.name}.md")

    def shown(self, kind: str, number: int = 0) -> str:
        return [text for language, text in self.blocks if language == kind][number]


def fenced(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each block."""
    return FENCED.findall(page.read_text())


def calls(*made: Any) -> Turn:
    return Turn(calls=list(made))


SKILLS = Page("skills-and-servers")
PAGES = [
    Page(
        "python",
        [
            *(calls(call("stock", article="tea")), "Three.", "Hello, Ann.", "You are Ann."),
            calls(call("task", agent="buyer", prompt="tea"), call("task", agent="buyer", prompt="cocoa")),
            *("Order tea.", "Order none.", "Tea it is."),
        ],
        out=[
            *("done Three. 30", "You are Ann. 4", "main tool_call", "main tool_call", "Tea it is."),
            "{'main': 2, 'buyer': 2}",
        ],
    ),
    Page("platform", ["Two."], {"tenants/acme/a": "", "tenants/blue/a": ""}, ["2 0", "('grep', 'auditor')"]),
    Page(
        "skills-and-servers",
        [calls(call("skill", name="weekly-report")), "All is well."],
        {
            "mcp.json": SKILLS.shown("json"),
            "skills/weekly-report/SKILL.md": SKILLS.shown("markdown"),
            "notes_server.py": SERVER,
        },
        ["['notes_find_notes', 'skill', 'glob', 'grep', 'read']", "All is well."],
    ),
    Page(
        "migrate/toolnexus-port",
        [
            *(calls(call("levels", article="tea")), "Three."),
            calls(call("task", agent="explore", prompt="tea?")),
            *("3", "Three of them."),
        ],
        {"skills/a/SKILL.md": "---\nname: a\ndescription: A.\n---\nA.\n"},
        ["done Three. 30 1", "explore done 3"],
    ),
    Page(
        "migrate/openai-agents",
        [
            *(calls(call("price_of", article="tea")), '{"article": "tea", "price": 4}'),
            calls(call("task", agent="billing", prompt="7?")),
            *("It is wrong.", "You are right."),
            *(calls(call("pay", to="Ann", amount=5)), "Paid."),
        ],
        out=[
            *("4 2", "billing It is wrong.", "You are right."),
            *("pending {'to': 'Ann', 'amount': 5}", "done Paid."),
        ],
    ),
    Page(
        "migrate/pydantic-ai",
        [
            *(calls(call("balance", customer="ann")), '{"text": "12", "block_card": false}'),
            *(calls(call("task", agent="jester", prompt="banks")), "Ha.", "Ha!", "Hello.", "Ann."),
        ],
        out=[
            "done text='12' block_card=False",
            *("Ha! {'main': 2, 'jester': 1}", "Ann. 4"),
        ],
    ),
    Page(
        "migrate/langgraph",
        [
            *(calls(call("weather", city="Faro")), "Sunny.", calls(call("weather", city="Faro")), "Sunny!"),
            *("fine", "fine", calls(call("book", city="Faro")), "Booked."),
        ],
        out=["Sunny.", "Sunny! 1", "3", "fine | fine", "pending book Faro?", "done Booked."],
    ),
    Page(
        "agent-files",
        files={".claude/agents/scout.md": AGENT, "more/agents/b.md": AGENT.replace("scout", "b")},
    ),
    Page(
        "config",
        ["In http.py."],
        {"toolnexus.toml": 'model = "openai:gpt-5-mini"\n', "sea.txt": ""},
        ["In http.py."],
        then="assert 'lookup' in client.toolkit.names()",
    ),
    Page("long-runs", ["Nothing is."], {"mcp.json": '{"mcpServers": {"a": {"command": "a"}}}'}),
    Page("mcp", files={".mcp.json": Page("mcp").shown("json")}),
    Page("projects", files={"path/of/the/folder/.claude/agents/scout.md": AGENT}),
    Page("skills", files={"skills/a/SKILL.md": "---\nname: a\ndescription: A.\n---\nA.\n"}),
    Page(
        "testing",
        ["Fine."],
        {"fixtures/a": "", "tests/a": ""},
        then="from pathlib import Path; test_the_notes_are_read(Path('tests')); assert result.text == 'fine'",
    ),
    Page("typed-answers", ['{"risk": 3}'], out=["3 []"]),
    Page("media", ["Too much.", "The same."], {"bill.pdf": "%PDF-1.4\n%%EOF\n"}),
    Page(
        "costs",
        ["The first."],
        out=["2e-05", "main 2e-05"],
        change=("prices=True", "prices={'gpt-5-mini': Price(input=1, output=2)}"),  # ours costs nothing
    ),
    Page("translate", [calls(call("weather", place="Bern"))], out=['weather {"place": "Bern"}']),
]


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
async def test_what_a_page_shows_runs(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[DOC-14] One program after the other, in one module, as it stands there."""
    lay(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {"__name__": "page"}
    exec(GIVEN, made)
    async with ScriptedEndpoint(page.turns) as endpoint:
        for name, value in surroundings(endpoint.url).items():
            monkeypatch.setenv(name, value)
        for kind, program in [*page.blocks, ("python", page.then)]:
            if kind == "python":
                code = compile(
                    program.replace(*page.change) if page.change[0] else program,
                    page.name,
                    "exec",
                    flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
                )
                if (running := eval(code, made)) is not None:
                    await running
    assert capsys.readouterr().out.splitlines() == page.out
    assert not endpoint.requests or len(endpoint.requests) == len(page.turns)


def lay(page: Page, folder: Path) -> None:
    """What the page calls files."""
    named = {"agents.toml": page.shown("toml")} if page.name == "platform" else {}
    for name, text in {**page.files, **named}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def surroundings(url: str) -> dict[str, str]:
    """Keys and addresses that the pages take for granted."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    tokens = {name: "not-a-secret" for name in ("ORDERS_TOKEN", "GITHUB_TOKEN")}
    return {"OPENAI_BASE_URL": url, "ANTHROPIC_BASE_URL": url, "PATH": path, **tokens}


@pytest.mark.parametrize("name", ["platform", "skills-and-servers"])
def test_what_a_way_in_says_at_the_command_line_runs(name: str, tmp_path: Path) -> None:
    """[DOC-15] Each command but the one that stays, in a folder with the files of the page."""
    page = next(page for page in PAGES if page.name == name)
    lay(page, tmp_path)
    for kind, text in page.blocks:
        for line in text.splitlines() if kind == "" else []:
            if " serve " not in line:
                with ScriptedEndpoint(["All is well."]) as endpoint:
                    env = {**surroundings(endpoint.url), "OPENAI_API_KEY": "none"}
                    env |= {"TOOLNEXUS_MODEL": "openai:gpt-5-mini"}
                    done = cli(tmp_path, *shlex.split(line)[1:], env=env)
                assert done.returncode == 0, (line, done.stderr)
                assert ("run" not in line) or done.stdout == "All is well.\n"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_every_command_of_a_page_can_be_given(page: Path) -> None:
    """[DOC-15] Its options are there, and what they need."""
    for kind, text in fenced(page):
        for line in text.splitlines() if kind in ("", "sh") else []:
            if line.startswith("toolnexus "):
                make_parser().parse_args(shlex.split(line, comments=True)[1:])


def test_json_that_a_page_shows_is_json() -> None:
    """[DOC-14] As it stands."""
    for page in DOCS.rglob("*.md"):
        for kind, text in fenced(page):
            if kind == "json":
                json.loads(text)


def test_every_program_of_the_docs_is_run_by_a_test() -> None:
    """[DOC-14] A page with programs is in the table above, or a test of what it is about names it."""
    here = {f"{page.name}.md" for page in PAGES}
    texts = [file.read_text() for file in (ROOT / "tests").rglob("*.py") if file != Path(__file__)]
    for page in DOCS.rglob("*.md"):
        name = str(page.relative_to(DOCS))
        if "```python" in page.read_text() and name not in here:
            named = re.compile(rf"docs/{re.escape(name)}|\"{re.escape(name)}\"|\"{page.stem}\"")
            assert any(named.search(text) and "docs" in text for text in texts), name


def test_every_example_is_on_its_page() -> None:
    """[DOC-16] docs/examples.md has all of them."""
    folders = sorted(path.name for path in (ROOT / "examples").iterdir() if (path / "README.md").exists())
    page = (DOCS / "examples.md").read_text()
    assert sorted(re.findall(r"\]\(\.\./examples/([\w-]+)\)", page)) == folders
