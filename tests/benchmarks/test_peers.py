"""What other packages do is measured, told and judged; nothing of them is installed here."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from benchmarks import measure, run, script, side
from benchmarks.peers import __main__ as peers
from benchmarks.peers import report

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command with figures that are given: exit status, output, errors."""

    def run_with(figures: Callable[[str, str], run.Figures], *arguments: str) -> tuple[int, str, str]:
        def installed(peer: str, folder: Path, env: dict[str, str], home: Path) -> tuple[str, peers.Place]:
            if peer == "strands":
                raise RuntimeError("strands cannot be installed: no way")
            return f"{peer} 1.0", peers.Place("python", folder, env)

        def measured(side: str, work: str, *_: object, **__: object) -> run.Figures:
            return figures(side, work)

        monkeypatch.setattr(peers, "installed", installed)
        monkeypatch.setattr(peers, "endpoint", lambda: nullcontext("url"))
        monkeypatch.setattr(peers, "environment", lambda: nullcontext(dict[str, str]()))
        monkeypatch.setattr(peers, "measure", measured)
        status = peers.main(["--peers", "agno,strands", "--only", "turn,stream", "--passes", "2", *arguments])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run_with


def test_a_package_that_fails_is_told_with_the_reason_and_ends_nothing(
    command: Command, tmp_path: Path
) -> None:
    """[PERF-08] Not installed, failed or miscounted: each is said, and what failed is not tried again."""
    tried: list[tuple[str, str]] = []

    def figures(side: str, work: str) -> run.Figures:
        tried.append((side, work))
        if (side, work) == ("agno", "stream"):
            raise RuntimeError("Traceback …\nValueError: no deltas")
        found = {"cpu": 1.0 if side == "agno" else 0.1, "first": 0.1}
        return found | ({"counted": 0.5, "wrong_tokens": 7} if side == "agno" else {"wrong_tokens": 0})

    status, out, _ = command(figures, "--json", str(tmp_path / "out.json"))
    assert status == 0
    assert "| one turn: CPU | 100 ms | 100 ms (1 x) | 1,000 ms (10 x) | failed |" in out
    assert "| 20,000 deltas: time to the first | 100 ms | 100 ms (1 x) | failed | failed |" in out
    assert "| agno and agent-framework | one turn | 0.100 (0.100-0.100) | ≤ 0.2 | yes |" in out
    assert "| toolnexus-port | one turn | not measured | ≤ 0.5 |  |" in out
    assert "* agno 1.0: stream: ValueError: no deltas; turn: 50% of the tokens are counted" in out
    assert "* strands: install: strands cannot be installed: no way" in out
    assert tried.count(("agno", "stream")) == 1 and ("strands", "turn") not in tried
    order = [who for who, work in tried if work == "turn"]
    assert order == ["ours", "floor", "agno", "floor", "agno", "ours"]
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["passes"]["turn"]["agno"][1]["cpu"] == 1.0
    assert written["failed"]["agno"] == {"stream": "ValueError: no deltas"}


def test_a_fault_of_ours_ends_the_command_with_status_1(command: Command) -> None:
    """[PERF-08] Being beaten never does."""

    def figures(side: str, work: str) -> run.Figures:
        return {"cpu": 9.0 if side == "ours" else 1.0, "first": 1.0, "wrong_results": float(side == "ours")}

    status, out, errors = command(figures)
    assert status == 1
    assert "**no**" in out and "wrong: turn of ours: wrong results 1" in errors


def test_what_was_measured_until_an_interrupt_is_told(command: Command) -> None:
    """[PERF-08] A quarter of an hour is not lost."""
    measured = 0

    def figures(side: str, work: str) -> run.Figures:
        nonlocal measured
        measured += 1
        if measured == 3:
            raise KeyboardInterrupt
        return {"cpu": 1.0, "first": 1.0}

    status, out, _ = command(figures)
    assert status == 0 and "1 passes" in out
    assert "| one turn: CPU | 1,000 ms | 1,000 ms (1 x) |  | failed |" in out


@pytest.mark.parametrize("option", ["--peers", "--only"])
def test_an_unknown_name_is_refused_with_those_that_are(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """[PERF-08] Before anything is installed."""
    with pytest.raises(SystemExit):
        peers.main([option, "nobody"])
    assert (
        f"there are: {(peers.PEERS if option == '--peers' else peers.WORKLOADS)[0]}, "
        in capsys.readouterr().err
    )


def test_every_package_is_there_and_measured_by_what_there_is() -> None:
    """[PERF-08] A file each with what is to be installed; rows and goals name workloads and figures."""
    for peer in peers.PEERS:
        module = __import__(f"benchmarks.peers.{peer}", fromlist=["Peer"])
        assert module.REQUIRES and callable(module.Peer)
    known = {"import", *measure.WORKLOADS}
    assert {row.workload for row in report.ROWS} | {goal.workload for goal in report.GOALS} <= known
    assert {name for goal in report.GOALS for name in goal.beside} <= set(peers.PEERS)


def test_results_in_a_wrapping_count_where_a_package_hands_them_over_so() -> None:
    """[PERF-03] With ids of its own, in parts, in words: what must be in it is; a wrong number is wrong."""
    plan: Any = {"rounds": 1, "calls": 2, "wrapped": True}
    calls = [{"id": "own1"}, {"id": "own2"}]
    transcript = [
        {"role": "user", "content": [{"type": "text", "text": f"Do this: {script.prompt(**plan)} Now."}]},
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "own1", "content": [{"type": "text", "text": "0 ok"}]},
        {"role": "tool", "tool_call_id": "own2", "content": '{"result": "11 ok"}'},
    ]
    assert script.inspect(transcript) == (script.prompt(**plan), 1, script.Faults(wrong=1))


def test_what_is_measured_beside_the_official_session_loses_nothing() -> None:
    """[PERF-01] MCP calls and listings, a large result and the first delta, of both sides."""
    assert side.LARGE == 5_000_000
    with run.endpoint() as url:
        for work in ("first_delta", "mcp_calls", "mcp_listing", "mcp_rounds", "large"):
            for who in ("floor", "ours") if work != "large" else ("ours",):  # aiohttp warns of large bodies
                figures = measure.measure(who, work, url, quick=True)
                assert figures["cpu"] > 0
                assert not any(value for name, value in figures.items() if name.startswith("wrong_"))
