"""`toolnexus workflow draw`."""

import sys
from pathlib import Path

import pytest

from toolnexus.cli.main import main

FLOWS = """
from toolnexus.workflow import Fn, Sequential
flow = Sequential(Fn(str.strip, name="strip"), Fn(len, name="measure"), name="count")
other = 7
from toolnexus import Agent as A
agent = A(name="a")
class Kept:
    inner = Fn(len, name="kept")
"""


@pytest.fixture(autouse=True)
def flows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "drawn_flows.py").write_text(FLOWS)
    (tmp_path / "drawn_broken.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("drawn_flows", "drawn_broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_workflow_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    """[CLI-118] From the folder at hand; a dotted name too."""
    assert main(["workflow", "draw", "drawn_flows:flow"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "flowchart TD",
        '  subgraph n["Sequential: count"]',
        "    direction TB",
        '    n_0["Fn: strip"]',
        '    n_1["Fn: measure"]',
        "    n_0 --> n_1",
        "  end",
    ]
    assert main(["workflow", "draw", "drawn_flows:Kept.inner"]) == 0
    assert capsys.readouterr().out == 'flowchart TD\n  n["Fn: kept"]\n'


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("drawn_flows", "must look like package.module:flow"),
        ("drawn_flows:flwo", "its workflows: ['flow']; did you mean 'flow'?"),
        ("drawn_flows:other", "is int, no workflow"),
        ("drawn_flows:agent", "is Agent, no workflow"),
        ("drawn_broken:x", "cannot import 'drawn_broken': ZeroDivisionError"),
        ("drawn_nowhere:x", "cannot import 'drawn_nowhere': ModuleNotFoundError"),
    ],
)
def test_what_is_no_workflow_is_told(target: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """[CLI-118] What is wrong and what there is."""
    assert main(["workflow", "draw", target]) == 2
    assert said in capsys.readouterr().err
