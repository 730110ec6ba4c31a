"""The benchmarks work and count right. Nothing here depends on how fast anything is."""

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from benchmarks import flows, graphs, run, scale, script
from benchmarks.beside import Suite


def conversation(plan: str, *results: tuple[str, str]) -> list[dict[str, Any]]:
    """A transcript after the first turn of `plan`, with the given results."""
    calls = [{"id": call.id} for call in script.calls_of(plan, 0)]
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": plan},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *[{"role": "tool", "tool_call_id": id, "content": text} for id, text in results],
    ]


@pytest.mark.exhaustive
def test_both_sides_do_the_whole_work_and_count_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[PERF-01] A run measures both sides, in processes of their own, and finds nothing lost."""
    out = tmp_path / "out.json"
    with run.environment() as env:
        assert Path(env["PYTHONPYCACHEPREFIX"]).is_dir()
    # figures do not count here, so nothing needs to be compiled anew
    monkeypatch.setattr(run, "environment", lambda: nullcontext(dict(os.environ)))
    assert run.main(["--quick", "--only", "agents64,stream", "--json", str(out)]) == 0
    passes = json.loads(out.read_text())["passes"]
    for workload in ("agents64", "stream"):
        for side in ("floor", "ours"):
            (figures,) = passes[workload][side]
            assert figures["cpu"] > 0
            assert [v for k, v in figures.items() if k.startswith("wrong_")] in ([0, 0, 0], [0])
    assert passes["agents64"]["ours"][0]["in_flight"] == 64
    assert "| 64 sub-agents: CPU per sub-agent |" in capsys.readouterr().out


def test_a_fault_is_named_and_ends_the_command_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[PERF-02] A lost result or a miscounted token fails the run; being slow never does."""
    slow = {"cpu": 9.0, "wrong_tokens": 0.0}

    def measured(*_: object) -> run.Passes:
        return {"turn": {"floor": [{"cpu": 1.0, "wrong_tokens": 0.0}], "ours": [slow]}}

    monkeypatch.setattr(run, "run_all", measured)
    assert run.main(["--only", "turn"]) == 0
    assert "**no**" in capsys.readouterr().out
    slow["wrong_tokens"] = 7.0
    assert run.main(["--only", "turn"]) == 1
    assert "turn of ours: wrong tokens 7" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("results", "faults"),
    [
        ([("c0_0", "0 ok"), ("c0_1", "1 ok")], script.Faults()),
        ([("c0_1", "1 ok"), ("c0_0", "0 ok")], script.Faults(out_of_order=1)),
        ([("c0_0", "0 ok")], script.Faults(missing=1)),
        ([("c0_0", "0 ok"), ("c0_0", "0 ok"), ("c0_1", "1 ok")], script.Faults(duplicate=1)),
        ([("c0_0", "1 ok"), ("c0_1", "0 ok")], script.Faults(wrong=2)),
    ],
)
def test_the_endpoint_sees_every_fault_of_a_transcript(
    results: list[tuple[str, str]], faults: script.Faults
) -> None:
    """[PERF-03] Missing, doubled, reordered and mixed-up results are counted, each as what it is."""
    plan = script.prompt(rounds=2, calls=2)
    assert script.inspect(conversation(plan, *results)) == (plan, 1, faults)


def test_an_answer_depends_on_the_request_alone() -> None:
    """[PERF-04] The same request gets the same bytes, and the plan of a sub-agent is in its prompt."""
    plan = script.prompt(agents=2, each={"rounds": 1})
    first, second = script.calls_of(plan, 0)
    assert script.reply(plan, 0, 1) == script.reply(plan, 0, 1)
    assert script.read_plan(json.loads(second.arguments)["prompt"]) == {"rounds": 1, "id": "main.1"}
    assert (first.expected, second.expected) == ("done main.0", "done main.1")
    assert script.requests_needed(script.read_plan(plan)) == 2 + 2 * 2


@pytest.mark.parametrize("flow", flows.SUITE.sizes)
def test_workflows_are_measured_and_lose_nothing(flow: str) -> None:
    """[PERF-05] Each side runs every node; a lost one is an error."""
    for side in flows.SUITE.sides:
        assert flows.SUITE.measure(side, flow, times=1) > 0


@pytest.mark.parametrize("work", graphs.SUITE.sizes)
def test_graphs_are_measured_and_lose_nothing(work: str) -> None:
    """[PERF-06] Each side runs every node; a lost one is an error."""
    for side in graphs.SUITE.sides:
        assert graphs.SUITE.measure(side, work, times=1) > 0


def test_the_table_has_a_ratio_within_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """[PERF-05] [PERF-06] Beside the bare loop, whoever else is there."""

    def measured(self: Suite, python: str, side: str, work: str) -> float:
        return 1e-6 if side == "bare" else 3e-6

    monkeypatch.setattr(Suite, "measured", measured)
    last = flows.SUITE.table({"bare": "", "ours": "", "langgraph": ""}, passes=2).splitlines()[-1]
    assert last == "| 100 x 20 branches: CPU per branch | 1.00 µs | 3.00 µs (3.0 x) | 3.00 µs (3.0 x) |"


@pytest.mark.anyio
@pytest.mark.parametrize("work", ["mcp", "output", "unread", "agents"])
async def test_scale_is_measured_and_loses_nothing(work: str) -> None:
    """[PERF-07] Each work is done whole, and what it took is told."""
    with run.endpoint() as url:
        figures = await scale.measure(work, scale.WORKS[work].quick, url)
    assert figures["lost"] == 0 and figures["cpu"] > 0 and figures["wall"] > 0


def test_what_is_lost_fails_the_measurement_of_scale_and_growth_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[PERF-07] The growth is an exponent: quadratic is 2."""
    lost = 0.0

    def measured(work: str, size: int, *_: object) -> scale.Figures:
        return {"wall": 1.0, "cpu": size**2 / 1e4, "memory": 2e6, "lost": lost}

    monkeypatch.setattr(scale, "measured", measured)
    assert scale.main(["--only", "asks", "--passes", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("| 2.00 | 0.00 | 0 |")
    lost = 1.0
    assert scale.main(["--only", "asks", "--quick"]) == 1
    assert "wrong: 1 things were lost" in capsys.readouterr().err
