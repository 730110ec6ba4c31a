"""docs/observability.md: what it shows runs, what it lists is there."""

import ast
import logging
import re
from pathlib import Path

import pytest

from tests.warm import Warm
from toolnexus import Client, FunctionModel
from toolnexus.testing import ScriptedEndpoint, Turn

ROOT = Path(__file__).parents[2]
DOCS = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("events", "observability")}
PROGRAMS = [
    program
    for page in DOCS.values()
    for program in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
]
LEVELS = {
    "debug": ["DEBUG"],
    "info": ["INFO"],
    "warning": ["WARNING"],
    "error": ["ERROR"],
    "exception": ["ERROR"],
    "log": ["INFO", "WARNING"],
}
"""The methods of a logger; `log` is used with these two."""


def run(warm: Warm, program: str, tmp_path: Path) -> tuple[str, str]:
    """Run a program of the pages against a scripted endpoint: what it prints, and its standard error."""
    with ScriptedEndpoint({"gpt-5-mini": [Turn(text="Hello.")]}) as endpoint:
        environment = {"OPENAI_BASE_URL": endpoint.url, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
        done = warm.run(program, cwd=tmp_path, env=environment, strict=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


SHOWS = [
    ['"type": "run_started"', '"delta": "Hello."', '"type": "done"', "\nHello.\n"],
    ["Hello.", '"name": "chat gpt-5-mini"', '"gen_ai.conversation.id": "order-17"', '"name": "order 17"'],
    ['toolnexus_llm_requests_total{model="gpt-5-mini",status="ok"} 1\n'],
    ['"logger": "toolnexus.runs"', "main: run ended done", '"run_id": "run_'],
]


@pytest.mark.parametrize(("program", "shows"), list(zip(PROGRAMS, SHOWS, strict=True)))
def test_what_the_pages_show_runs(program: str, shows: list[str], warm: Warm, tmp_path: Path) -> None:
    """[OBS-43] Each program as it stands, in a process of its own, without a warning."""
    out, err = run(warm, program, tmp_path)
    for part in shows:
        assert part in out + err


def test_the_page_lists_every_metric() -> None:
    """[OBS-43] Names and labels are those of `client.metrics()`."""
    names = set(
        re.findall(r"^# TYPE (\w+)", Client(model=FunctionModel(lambda r: "")).metrics(), re.MULTILINE)
    )
    assert set(re.findall(r"^\| `(toolnexus_\w+)`", DOCS["observability"], re.MULTILINE)) == names


def test_the_page_lists_every_logger_and_level() -> None:
    """[OBS-44] What the code logs, and nothing else."""
    rows = re.findall(r"^\| `(toolnexus\.\w+)` \| (\w+) \|", DOCS["observability"], re.MULTILINE)
    told = {(name, level) for name, level in rows}
    found: set[tuple[str, str]] = set()
    for file in (ROOT / "toolnexus").rglob("*.py"):
        text = file.read_text()
        names = re.findall(r"^(\w+) = logging\.getLogger\(\"(toolnexus\.\w+)\"\)", text, re.MULTILINE)
        if not names and "self._logger" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner = ast.unparse(node.func.value)
            levels = LEVELS.get(node.func.attr, ())
            found |= {(name, level) for v, name in names if owner in (v, "self._logger") for level in levels}
    assert found == told


def test_fields_are_no_words_of_logging() -> None:
    """[OBS-31] A field that `LogRecord` has itself would make every line an error."""
    taken = vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}
    text = (ROOT / "toolnexus" / "telemetry" / "logs.py").read_text()
    tree = ast.parse(text)
    given = {
        keyword.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("self._end", "self._say", "TurnLines", "ToolLines")
        for keyword in node.keywords
    }
    assert given and not given & taken
