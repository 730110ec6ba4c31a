"""`toolnexus demo`, played by the real command."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import COLOUR, Terminal, alive, below, cli, environment, mentioning, until
from tests.warm import Warm
from toolnexus.cli.main import main
from toolnexus.testing import ScriptedEndpoint

BUG = "desk/shipping.py:12"
PLAYS: Mapping[str, tuple[str, ...]] = {
    "plain": ("--plain",),
    "json": ("--json", "--save", "saved.py"),
    "kill-server": ("--json", "--fault", "kill-server"),
    "hang": ("--json", "--fault", "hang"),
    "deny": ("--json", "--fault", "deny"),
    "limit": ("--json", "--fault", "limit"),
}


class Play:
    """One finished demo."""

    def __init__(self, folder: Path, done: subprocess.CompletedProcess[str]) -> None:
        self.folder = folder
        self.code = done.returncode
        self.out = done.stdout
        self.said = done.stderr
        self.left = mentioning(str(folder))

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def of(self, type: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == type]

    def span(self, agent: str) -> tuple[float, float]:
        """When the run of an agent began and ended."""
        begin = next(e for e in self.of("run_started") if e["agent"] == agent)
        end = next(e for e in self.of("done") if e["path"] == begin["path"])
        return begin["time"], end["time"]

    def status(self, agent: str) -> str:
        return next(e["status"] for e in self.of("done") if e["path"][-1].partition(".")[0] == agent)

    @property
    def clean(self) -> bool:
        """Whether no process is left, and no traceback was shown."""
        return self.left == [] and "Traceback" not in self.out + self.said

    @property
    def report(self) -> Path:
        return next(self.folder.glob("toolnexus-demo-*")) / "REPORT.md"


class Plays:
    """Every kind of demo, played when it is first asked for."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._done: dict[str, Play] = {}

    def __getitem__(self, name: str) -> Play:
        if name not in self._done:
            folder = self._folders.mktemp(name)
            self._done[name] = Play(folder, cli(folder, "demo", "--think", "0.1", *PLAYS[name]))
        return self._done[name]


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Plays:
    return Plays(tmp_path_factory)


def test_two_children_work_at_once_and_both_find_the_planted_bug(plays: Plays) -> None:
    """[CLI-10] One turn delegates twice, the children overlap in time, the answer joins what both found."""
    play = plays["json"]
    assert play.code == 0
    tasks = [e for e in play.of("tool_call") if e["name"] == "task"]
    turns = [e["seq"] for e in play.of("turn_started") if e["path"] == ["main"]]
    assert [t["arguments"]["agent"] for t in tasks] == ["explore", "review"]
    assert len(turns) == 2
    assert all(turns[0] < task["seq"] < turns[1] for task in tasks)
    (first, end_first), (second, end_second) = play.span("explore"), play.span("review")
    assert min(end_first, end_second) - max(first, second) > 0.2
    answers = [e["output"] for e in play.of("tool_result") if e["name"] == "task"]
    assert all(BUG in answer for answer in answers)
    assert BUG in play.of("done")[-1]["text"]


def test_what_is_found_comes_out_of_real_tools(plays: Plays) -> None:
    """[CLI-11] A server process lists and reads, grep searches, the skill is loaded, a file is written."""
    play = plays["json"]
    used = {(e["path"][-1].partition(".")[0], e["name"]) for e in play.of("tool_result") if not e["isError"]}
    assert used >= {
        ("explore", "files_list"),
        ("explore", "files_read"),
        ("explore", "grep"),
        ("review", "skill"),
        ("review", "read"),
        ("review", "write"),
    }
    served = next(e for e in play.of("tool_result") if e["name"] == "files_list")
    assert served["metadata"]["server"] == "files"
    number = int(BUG.partition(":")[2])
    source = (play.report.parent / "desk" / "shipping.py").read_text().splitlines()
    assert f"{BUG}:{source[number - 1]}" in next(
        e["output"] for e in play.of("tool_result") if e["name"] == "grep"
    )
    assert f"`{BUG}`" in play.report.read_text()
    assert source[number - 1].strip().replace(">", ">=") in play.report.read_text()


def test_json_is_one_event_a_line_and_nothing_else(plays: Plays) -> None:
    """[CLI-12] Standard output of `--json` holds events in order, with paths and times; the rest is said
    on standard error."""
    play = plays["json"]
    assert [e["seq"] for e in play.events] == list(range(1, len(play.events) + 1))
    assert all(e["path"][0] == "main" and e["time"] > 0 for e in play.events)
    assert (play.events[0]["type"], play.events[-1]["type"]) == ("run_started", "done")
    assert "toolnexus demo" in play.said


def test_the_figures_are_measured(plays: Plays) -> None:
    """[CLI-13] Agents, times, bytes, characters and tokens at the end are what the events say."""
    play = plays["json"]
    children = [play.span("explore"), play.span("review")]
    begin, end = play.span("main")
    union = max(e for _, e in children) - min(s for s, _ in children)
    apart = end - begin - union + sum(e - s for s, e in children)
    results = play.of("tool_result")
    read = sum(len(e["output"].encode()) for e in results if len(e["path"]) > 1)
    seen = sum(len(e["output"]) for e in results if e["name"] == "task")
    tokens: dict[str, int] = {}
    for event in play.of("usage"):
        agent = event["path"][-1].partition(".")[0]
        tokens[agent] = tokens.get(agent, 0) + event["usage"]["totalTokens"]
    by_agent = ", ".join(f"{agent} {tokens[agent]:,}" for agent in ("main", "explore", "review"))
    assert f"agents   3 (main, explore, review), {len(results)} tool calls" in play.said
    assert f"time     {end - begin:.1f} s at once, {apart:.1f} s one after the other" in play.said
    assert f"took in {read:,} bytes, main saw {seen:,} characters" in play.said
    assert read > 10 * seen
    assert f"tokens   {by_agent} (scripted" in play.said


def test_the_scripted_model_is_named_at_the_top_and_at_its_tokens(plays: Plays) -> None:
    """[CLI-14] What is not real is said once at the top and beside the token figures, and nowhere else."""
    lines = [line for line in plays["plain"].out.splitlines() if "script" in line]
    assert len(lines) == 2
    assert lines[0] in plays["plain"].out.splitlines()[:3]
    assert lines[1].startswith("tokens ")


def test_plain_lines_tell_each_start_and_end_and_the_tree_shows_the_overlap(plays: Plays) -> None:
    """[CLI-15] [CLI-16] Without a terminal: a line for each start and end, then the tree with bars, the
    answer, the report; no line of the tree is wider than 80 columns, and there are no control codes."""
    play = plays["plain"]
    assert play.clean
    assert play.code == 0
    assert "\x1b" not in play.out
    for wanted in (
        r"s  main  starts",
        r"s    explore  starts",
        r"s    review  write REPORT.md …",
        r"s    review  write REPORT.md gave",
        r"s    explore  ends done, 4 turns, 4 tool calls",
        r"s  main  ends done, 2 turns, 2 tool calls",
    ):
        assert re.search(rf"^ *\d+\.\d\d {wanted}", play.out, re.MULTILINE), wanted
    assert bars_overlap(play.out.splitlines())
    assert f"report   {play.report}" in play.out


def test_killing_the_server_costs_one_call(plays: Plays) -> None:
    """[CLI-20] [CLI-16] `kill-server`: the call in flight fails, the server comes back, all runs end done."""
    play = plays["kill-server"]
    assert play.clean
    files = [e for e in play.of("tool_result") if e["name"] == "files_read"]
    assert files[0]["isError"]
    assert "SIGKILL" in files[0]["output"]
    assert len(files) > 1
    assert not any(e["isError"] for e in files[1:])
    assert [play.status(a) for a in ("explore", "review", "main")] == ["done"] * 3
    assert play.code == 0
    pid = re.search(r"process (\d+) serves", play.out)
    assert pid is not None
    assert f"broken   the MCP server (process {pid[1]}) was killed" in play.said
    assert "held     the runs ended: explore done, review done, main done" in play.said


def test_a_hanging_child_is_ended_by_its_budget_and_its_sibling_is_intact(plays: Plays) -> None:
    """[CLI-21] [CLI-16] `hang`: the deadline of the one child ends it; the other finds the bug and writes."""
    play = plays["hang"]
    assert play.clean
    begin, end = play.span("explore")
    assert play.status("explore") == "incomplete"
    assert 2.0 < end - begin < 10.0
    assert [play.status(a) for a in ("review", "main")] == ["done"] * 2
    assert BUG in play.report.read_text()
    assert play.code == 0
    assert "frozen" in play.said
    assert "limits hit: seconds" in play.said


def test_a_denied_write_is_told_and_nothing_is_written(plays: Plays) -> None:
    """[CLI-22] [CLI-16] `deny`: the hook's refusal reaches the child, the finding survives, no file."""
    play = plays["deny"]
    assert play.clean
    write = next(e for e in play.of("tool_result") if e["name"] == "write")
    assert write["isError"]
    assert not play.report.exists()
    assert BUG in play.of("done")[-1]["text"]
    assert play.code == 0
    assert "a hook denied the write of main/review" in play.said
    assert "REPORT.md was not written" in play.said


def test_a_limit_leaves_an_incomplete_run_that_says_so(plays: Plays) -> None:
    """[CLI-23] [CLI-16] `limit`: the second child is refused, the run ends incomplete, the exit code is 3."""
    play = plays["limit"]
    assert play.clean
    assert play.code == 3
    assert play.status("main") == "incomplete"
    assert len(play.of("sub_agent_started")) == 1
    assert "limits hit: max_sub_agents 1 of main" in play.said


def test_the_saved_program_runs_and_finds_the_same(plays: Plays, warm: Warm, tmp_path: Path) -> None:
    """[CLI-24] `--save` writes about twenty lines that run by themselves and give the same answer."""
    play = plays["json"]
    program = play.folder / "saved.py"
    assert f"run it with {sys.executable} saved.py" in play.said
    code = [line for line in program.read_text().splitlines() if line.strip()]
    assert len(code) < 30
    done = warm.run(program, cwd=tmp_path, env=environment(tmp_path))
    assert done.stderr == ""
    assert done.stdout.startswith(play.of("done")[-1]["text"])


def test_save_refuses_what_exists_and_what_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[CLI-25] `--save` overwrites nothing and says so before anything runs; exit code 2."""
    taken = tmp_path / "mine.py"
    taken.write_text("mine")
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--save", "mine.py"]) == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert "'mine.py' exists already" in said
    assert taken.read_text() == "mine"
    assert main(["demo", "--save", "no/where.py"]) == 2
    assert "no folder 'no'" in capsys.readouterr().err
    assert main(["demo", "--save", "new.py", "--fault", "deny"]) == 2
    assert "--save goes without --fault" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [taken]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_demo_cleanly(warm: Warm, tmp_path: Path, number: int, code: int) -> None:
    """[CLI-26] Ctrl-C and SIGTERM end it within three seconds: no traceback, no process, no folder left."""
    program = "import sys; from toolnexus.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = (program, "demo", "--plain", "--think", "30")
    with (
        (tmp_path / "said").open("w+") as said,
        warm.start(*command, cwd=tmp_path, env=environment(tmp_path), stderr=said) as process,
    ):
        while "main  starts" not in process.stdout.readline():
            assert process.is_running
        children = below(process.pid)
        assert mentioning(str(tmp_path))
        began = time.monotonic()
        process.send_signal(number)
        out = process.stdout.read()
        assert process.wait(20) == code
        assert time.monotonic() - began < 3.0
    assert "Traceback" not in out + (tmp_path / "said").read_text()
    assert until(lambda: not any(alive(pid) for pid in children), 2.0)
    assert list(tmp_path.glob("toolnexus-demo-*")) == []


def test_at_a_terminal_the_tree_is_redrawn_and_stays(warm: Warm, tmp_path: Path) -> None:
    """[CLI-30] The live tree shows agents, tools and overlapping bars in 80 columns, in colour, and its
    last state stays."""
    with Terminal(warm, tmp_path, ["demo", "--think", "0.1"]) as terminal:
        assert terminal.wait() == 0
    lines = terminal.screen
    assert terminal.output.count("review") > 5  # frames before the last
    assert COLOUR.search(terminal.output)
    assert bars_overlap(lines)
    assert sum(line.startswith("main ") for line in lines) == 1
    assert any("write REPORT.md" in line for line in lines)
    assert terminal.output.rfind("\x1b[?25h") > terminal.output.rfind("\x1b[?25l")  # the cursor is back


def test_live_plays_it_on_the_model_of_the_environment(tmp_path: Path) -> None:
    """[CLI-27] `--live` uses the detected model, says which and why, and calls nothing scripted; the saved
    program names it."""
    turns = [
        {"calls": [{"name": "task", "args": {"agent": "explore", "prompt": "look"}}]},
        {"text": "seen"},
        {"text": "the end"},
    ]
    with ScriptedEndpoint(turns) as endpoint:
        env = {"TOOLNEXUS_MODEL": "openai:tiny", "OPENAI_BASE_URL": endpoint.url}
        done = cli(tmp_path, "demo", "--live", "--plain", "--save", "live.py", env=env)
        assert done.returncode == 0, done.stderr
    assert "The model is openai:tiny (TOOLNEXUS_MODEL)" in done.stdout
    assert "the end" in done.stdout
    assert re.search(r"^tokens .*\(openai:tiny\)$", done.stdout, re.MULTILINE)
    assert "script" not in done.stdout
    program = (tmp_path / "live.py").read_text()
    assert "demo_client(folder, 'openai:tiny')" in program
    assert "scripted" not in program
    compile(program, "live.py", "exec")


def bars_overlap(lines: list[str]) -> bool:
    """Whether the bars of both children share columns, on lines of at most 80 columns."""
    rows = {
        name: next(line for line in lines if line[:2] in ("├ ", "└ ") and name in line) for name in AGENTS
    }
    assert all(len(row) <= 80 for row in rows.values())
    columns = [{at for at, mark in enumerate(row) if mark in "░█"} for row in rows.values()]
    return len(columns[0] & columns[1]) > 5


AGENTS = ("explore", "review")
