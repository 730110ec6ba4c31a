"""The interpreter can fail: an expectation that does not hold is seen, whatever its kind."""

import ast
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import pytest

import toolnexus
from toolnexus.cli.main import main as cli
from toolnexus.testing.conformance.expectations import mismatches
from toolnexus.testing.conformance.fixture import FixtureError, home, load
from toolnexus.testing.conformance.play import Played, play

Case = dict[str, Any]
ROOT = home().parent

SILENT = ("lacks",)
"""Tests that hold for any wrong word; they are broken by hand below."""


def small(**changes: Any) -> Case:
    """A run with a child, a file, two models and a limit, so that every kind of expectation has an object."""
    case: Case = {
        "name": "small",
        "client": {"builtins": ["bash"], "systemPrompt": "Lead."},
        "agents": [{"name": "x", "model": "small", "maxTurns": 1, "tools": ["probe"]}],
        "tools": [{"name": "probe", "does": {"return": "probed"}}],
        "replies": [
            {
                "when": {"agent": "main", "turn": 1},
                "calls": [
                    {"id": "t", "name": "task", "arguments": {"agent": "x", "prompt": "p"}},
                    {"id": "b", "name": "bash", "arguments": {"command": "printf hi > note.txt"}},
                ],
            },
            {"when": {"agent": "main"}, "text": "end"},
            {"text": "half", "calls": [{"name": "probe"}]},
        ],
        "run": [{"ask": "go"}],
    }
    return {**case, **changes}


def find_case(name: str, part: str) -> Case:
    (found,) = (c for c in load(ROOT / "examples" / name / "fixture.json") if part in c["name"])
    return deepcopy(found)


async def wrong(case: Case, seconds: float = 10) -> list[str]:
    return list(mismatches(case, await play(case, seconds=seconds)))


_played: list[Played] = []


async def wrong_of_small(**expectations: Any) -> list[str]:
    """Of the small case, which is played once for all that may be expected of it."""
    if not _played:
        _played.append(await play(small()))
    return list(mismatches(small(**expectations), _played[0]))


OF_A_RESULT: list[tuple[str, Any, str]] = [
    ("status", "incomplete", "done"),
    ("limit", "depth", "null"),
    ("limitsHit", [], "max_turns"),
    ("limitsHit", [{"limit": "max_turns", "times": 2}], "1"),
    ("text", "fin", "end"),
    ("text", {"contains": ["end", "fin"]}, "end"),
    ("text", {"lacks": "en"}, "end"),
    ("text", {"like": "e*f"}, "end"),
    ("error", "boom", "null"),
    ("path", "top", "main"),
    ("turns", 3, "2"),
    ("turns", [3, 5], "2"),
    ("toolCalls", 1, "2"),
    ("subAgentToolCalls", 0, "1"),
    ("transcript", ["user", "assistant", "tool", "assistant"], "tool"),
    ("messages", {"lacks": "half"}, "half"),
    ("toolResults", [{}], "half"),
    ("toolResults", [{"id": "b"}, {"id": "t"}], '"t"'),
    ("toolResults", [{"tool": "task"}, {"tool": "probe"}], "bash"),
    ("toolResults", [{"output": "half"}, {}], "[incomplete: max_turns 1]"),
    ("toolResults", [{"isError": True}, {}], "false"),
    ("toolResults", [{"metadata": {"agent": "y"}}, {}], '"x"'),
    ("pending", [{"kind": "question"}], "[]"),
    ("usage", {"totalTokens": 46}, "45"),
    ("usage", {"byAgent": {"x": {"requests": 2}}}, "1"),
    ("usage", {"byModel": {"nobody": {}}}, "null"),
    ("ownUsage", {"requests": 3}, "2"),
    ("subAgents", [], "max_turns"),
    ("subAgents", [{"status": "done"}], "incomplete"),
    ("runsBelow", 2, "1"),
]
OF_A_CASE: list[tuple[str, Any, str]] = [
    ("requests", [{"count": 2}], "3"),
    ("requests", [{"of": {"agent": "nobody"}}], "no such request"),
    ("requests", [{"of": {"agent": "main"}, "mostAtOnce": 2}], "1"),
    ("requests", [{"paths": ["main", "main"]}], "main/x.t"),
    ("requests", [{"are": {"agent": "main"}}], '"x"'),
    ("requests", [{"are": {"path": {"like": "main/*"}}}], '"main"'),
    ("requests", [{"are": {"depth": 0}}], "1"),
    ("requests", [{"are": {"turn": 1}}], "2"),
    ("requests", [{"are": {"model": "scripted"}}], '"small"'),
    ("requests", [{"are": {"system": "Lead."}}], '""'),
    ("requests", [{"are": {"last": {"contains": "go"}}}], '"p"'),
    ("requests", [{"are": {"messages": {"lacks": "printf"}}}], "printf"),
    ("requests", [{"are": {"tools": ["probe"]}}], "bash"),
    ("requests", [{"are": {"tools": {"equals": ["probe"]}}}], "bash"),
    ("requests", [{"are": {"tools": {"contains": "task"}}}], '["probe"]'),
    ("requests", [{"are": {"tools": {"lacks": "task"}}}], "task"),
    (
        "requests",
        [{"of": {"agent": "main"}, "are": {"descriptions": {"task": {"contains": "- y"}}}}],
        "characters)",
    ),
    (
        "requests",
        [{"of": {"agent": "main"}, "are": {"descriptions": {"nothing": {"contains": "y"}}}}],
        "null",
    ),
    ("executed", {"probe": 2}, "1"),
    ("executed", {"probe": {"mostAtOnce": 0}}, "1"),
    ("executed", {"probe": {"paths": ["main"]}}, "main/x.t"),
    ("executed", {"prob": 0}, "null"),
    ("files", {"note.txt": None}, "hi"),
    ("files", {"note.txt": "ho"}, "hi"),
    ("files", {"other.txt": {}}, "null"),
    ("buildError", {"contains": "x"}, "null"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("key", "expected", "actual"), OF_A_RESULT)
async def test_a_wrong_expectation_of_a_result_is_seen(key: str, expected: Any, actual: str) -> None:
    """[FIX-05] The line names the place, what was expected and what was there."""
    lines = await wrong_of_small(run=[{"ask": "go", "expect": {key: expected}}])
    assert any(line.startswith(f"run[0].{key}") and actual in line for line in lines), lines


@pytest.mark.anyio
@pytest.mark.parametrize(("key", "expected", "actual"), OF_A_CASE)
async def test_a_wrong_expectation_of_a_case_is_seen(key: str, expected: Any, actual: str) -> None:
    """[FIX-05] The same for requests, executed tools, files and the build."""
    lines = await wrong_of_small(expect={key: expected})
    assert any(line.startswith(f"expect.{key}") and actual in line for line in lines), lines


@pytest.mark.anyio
async def test_what_is_right_is_not_complained_about() -> None:
    """[FIX-05] The small case itself holds."""
    expect = {"status": "done", "turns": [1, 2], "toolResults": [{"isError": False}, {}]}
    assert await wrong(small(run=[{"ask": "go", "expect": expect}], expect={"executed": {"probe": 1}})) == []


def changed(case: Case) -> Iterator[tuple[Case, str]]:
    """The case with one expected value changed, for every value."""
    copy = deepcopy(case)
    parts = [(["expect"], case.get("expect", {}))]
    parts += [(["run", n, "expect"], step.get("expect", {})) for n, step in enumerate(case.get("run", ()))]
    for start, expected in parts:
        for place, value in _leaves(expected, start):
            if any(key in SILENT for key in place) or "of" in place:
                continue
            target: Any = copy
            for key in place[:-1]:
                target = target[key]
            target[place[-1]] = _other(value)
            yield copy, ".".join(map(str, place))
            target[place[-1]] = value


def _leaves(value: Any, place: list[Any]) -> Iterator[tuple[list[Any], Any]]:
    children: Any = dict(enumerate(cast("list[Any]", value))) if isinstance(value, list) else value
    if not isinstance(children, dict) or value == []:
        yield place, value
        return
    for key, child in cast("dict[Any, Any]", children).items():
        yield from _leaves(child, [*place, key])


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1000
    if isinstance(value, list):
        return ["something else"]
    return "something else" if value is None else value + " or else"


@pytest.mark.anyio
async def test_a_sequential_run_fails_the_fan_out_case() -> None:
    """[FIX-07] A gate proves concurrency: with one at a time it never opens, and the case says which."""
    case = find_case("subagent-fanout", "two tasks of one turn")
    case["client"]["budget"] = {"concurrency": 1}
    (line, *_) = await wrong(case, seconds=0.3)
    assert "still waiting after 0.3 s" in line and "'both are asking': '1 of 2'" in line


@pytest.mark.anyio
async def test_one_too_many_at_once_is_seen() -> None:
    """[FIX-07] A gate lets everything else run before it opens, so that a wider run shows."""
    case = find_case("subagent-limits", "never more than four")
    case["client"]["budget"] = {"concurrency": 5}
    assert any("mostAtOnce: expected 4, got 5" in line for line in await wrong(case))


@pytest.mark.anyio
async def test_a_request_without_a_reply_fails_the_case() -> None:
    """[FIX-08] Also when the run itself takes it for a child that failed."""
    lines = await wrong(small(replies=small()["replies"][:2]))
    assert lines == ['replies: expected "one that fits main/x.t, turn 1", got null']


@pytest.mark.anyio
async def test_an_unexpected_build_error_fails_the_case() -> None:
    """[FIX-08] A client that cannot be built is a mismatch unless the case expects it."""
    (line,) = await wrong(small(agents=[{"name": "x"}, {"name": "x"}]))
    assert line.startswith("expect.buildError: expected null, got") and "'x'" in line


@pytest.mark.anyio
async def test_an_exception_that_no_host_should_see_fails_the_case() -> None:
    """[FIX-08] The table goes on after it."""
    (line,) = await wrong(small(agents=[{"name": "x", "colour": "red"}]))
    assert line.startswith("run: expected null, got") and "colour" in line


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"run": [{"ask": "go", "expect": {"statuz": "done"}}]}, "statuz"),
        ({"expect": {"executed": {"probe": {"counts": 1}}}}, "executed.probe"),
        ({"replies": [{"when": {"agnet": "main"}}]}, "agnet"),
        ({"client": {"max_turns": 3}}, "max_turns"),
        ({"gates": {"g": 0}}, "gates.g"),
        ({"run": []}, "run"),
    ],
)
def test_a_misspelt_key_is_refused(tmp_path: Path, change: Case, part: str) -> None:
    """[FIX-09] Nothing in a file is skipped because nobody knows it."""
    file = tmp_path / "fixture.json"
    file.write_text(json.dumps({"version": 1, "about": "a", "cases": [small(**change)]}))
    with pytest.raises(FixtureError, match=r"fixture\.json: \$\.cases\[0\]") as caught:
        load(file)
    assert part in str(caught.value)


def test_a_gate_that_nobody_declared_is_refused(tmp_path: Path) -> None:
    """[FIX-09] Not found out in mid-run, where it would look like a failing child."""
    for change in ({"replies": [{"gate": "g"}]}, {"tools": [{"name": "probe", "does": {"gate": "g"}}]}):
        file = tmp_path / "fixture.json"
        file.write_text(json.dumps({"version": 1, "about": "a", "cases": [small(**change)]}))
        with pytest.raises(FixtureError, match=r"'small'.*\['g'\]"):
            load(file)


def test_two_cases_of_one_name_are_refused(tmp_path: Path) -> None:
    """[FIX-09] A line of the table means one case."""
    file = tmp_path / "fixture.json"
    file.write_text(json.dumps({"version": 1, "about": "a", "cases": [small(), small()]}))
    with pytest.raises(FixtureError, match="'small'"):
        load(file)


def test_a_case_takes_whole_keys_from_common(tmp_path: Path) -> None:
    """[FIX-10] What a case says itself replaces the common value and is not mixed with it."""
    common = {"client": {"maxTurns": 3, "builtins": False}, "tools": [{"name": "a"}]}
    cases = [
        {"name": "one", "client": {"maxTurns": 4}, "run": [{"ask": "go"}]},
        {"name": "two", "run": [{"ask": "go"}]},
    ]
    file = tmp_path / "fixture.json"
    file.write_text(json.dumps({"version": 1, "about": "a", "common": common, "cases": cases}))
    one, two = load(file)
    assert one["client"] == {"maxTurns": 4} and one["tools"] == [{"name": "a"}]
    assert two["client"] == {"maxTurns": 3, "builtins": False}


def test_the_table_says_what_failed_and_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """[FIX-11] One line per case; below a failed one the file, the place and both values; exit code 1."""
    folder = tmp_path / "somewhere"
    folder.mkdir()
    good = small(name="good")
    bad = small(name="bad", run=[{"ask": "go", "expect": {"text": "fin"}}])
    (folder / "fixture.json").write_text(json.dumps({"version": 1, "about": "a", "cases": [good, bad]}))
    assert cli(["conformance", str(tmp_path)]) == 1
    first, second, detail, last = capsys.readouterr().out.splitlines()
    assert first.startswith("ok") and first.endswith("good") and "somewhere" in first
    assert second.startswith("FAILED") and second.endswith("bad")
    assert detail.strip() == 'run[0].text: expected "fin", got "end"'
    assert last.endswith(": 2 cases, 0 partly, 1 failed, 0 unsupported")


def test_the_exit_code_tells_a_bad_file_from_a_failed_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """[FIX-11] 0 all hold, 2 nothing was played: no such file, no JSON, no fixture."""
    file = tmp_path / "fixture.json"
    assert cli(["conformance", str(file)]) == 2 and "fixture.json" in capsys.readouterr().err
    file.write_text("{")
    assert cli(["conformance", str(file)]) == 2 and "fixture.json" in capsys.readouterr().err
    assert cli(["conformance", str(tmp_path / "nothing")]) == 2
    file.write_text(json.dumps({"version": 1, "about": "a", "cases": [small()]}))
    assert cli(["conformance", str(file), "--only", "nobody"]) == 2
    assert cli(["conformance", str(file)]) == 0


def test_driver_and_runner_use_the_public_api_only() -> None:
    """[FIX-12] Whatever they import of the package has a public name, or belongs to the test kit."""
    names: set[str] = set()
    for file in (Path(toolnexus.__file__).parent / "testing" / "conformance").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("toolnexus"):
                continue
            if node.module == "toolnexus":
                names |= {alias.name for alias in node.names}
            elif node.module not in ("toolnexus.cli.exits", "toolnexus.cli.view.words"):  # as all commands
                assert (node.module or "").startswith("toolnexus.testing"), f"{file.name}: {node.module}"
    assert names and names <= set(toolnexus.__all__)
