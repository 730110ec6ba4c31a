"""docs/graph.md: what it shows runs."""

import ast
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import cli
from toolnexus.errors import ErrorKind
from toolnexus.testing import ScriptedEndpoint, Turn, call

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[3] / "docs" / "graph.md").read_text()
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCKS = FENCED.findall(PAGE)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page calls files, in the folder at hand."""
    monkeypatch.chdir(tmp_path)
    for kind, text in BLOCKS:
        if kind in ("yaml", "js"):
            name = re.split(r"[#/]+ ", text.splitlines()[0])[1]
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text(text)


async def test_what_the_page_shows_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[GR-454] One program after the other, in one module."""
    made: dict[str, Any] = {"__name__": "page"}
    turns = [Turn(calls=[call("read_file", path="greeting.txt")]), Turn(text="They greet.")]
    async with ScriptedEndpoint(turns) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        monkeypatch.delenv("TOOLNEXUS_MODEL", raising=False)
        for kind, program in BLOCKS:
            if kind == "python":
                code = compile(program, "graph.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                if (running := eval(code, made)) is not None:
                    await running
        await made["scripts"]["js"].close()
    assert capsys.readouterr().out.splitlines() == [
        "done They greet.",
        "1 ['a.txt', 'b.txt'] Hello 0",
        "['fork', 'left', 'right', 'meet', 'fork', 'left', 'right', 'meet']",
        "HI ADA. HI ADA. ",
        "['fork', 'left']",
        "not_available 503 two ['one']",
        "['one', 'two', 'three']",
        "start",
        "step.node_one.start",
        "step.node_one.complete",
        "checkpoint ['one'] 1",
        "step.node_two.start",
        "step.node_two.complete",
        "checkpoint ['two'] 2",
        "step.node_three.start",
        "step.node_three.complete",
        "checkpoint ['three'] 3",
        "end",
    ]


def test_what_the_page_says_at_the_command_line_runs(tmp_path: Path) -> None:
    """[GR-454] Each command, in a folder with the files of the page."""
    (commands,) = [text for kind, text in BLOCKS if kind == ""]
    for line in commands.splitlines():
        done = cli(tmp_path, *shlex.split(line)[1:])
        assert done.returncode == 0, done.stderr
    assert done.stdout == '{"who": "Ada", "hi": "Hi Ada"}\n'  # pyright: ignore[reportPossiblyUnboundVariable]
    assert (tmp_path / "assistant.svg").read_text().startswith("<?xml")


def test_the_page_lists_every_kind() -> None:
    """[GR-454] Kinds of errors with their status, and kinds of findings."""
    rows = re.findall(r"^\| (`[a-z_`, ]+) \| (\d+) \|", PAGE, re.MULTILINE)
    told = {name.strip(" `"): int(status) for names, status in rows for name in names.split(",")}
    assert told == {kind.value: kind.http_status for kind in ErrorKind}
    source = (Path(__file__).parents[3] / "toolnexus" / "graph" / "analyze.py").read_text()
    found = re.findall(r'yield \(?\s*"(\w+)"', source)
    table = PAGE.partition("## What is probably not meant")[2].partition("##")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(dict.fromkeys(found))
