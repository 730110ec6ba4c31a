"""Every example runs as a user runs it: a program of its own, from any folder, with and without a model."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm import Warm
from toolnexus.testing import ScriptedEndpoint

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

SAYS = {
    "subagent-fanout": [
        "Only shop still uses chargeV1",
        "the caller: 2 turns, 4 messages",
        "searcher.billing: 2 turns, 1 tool calls",
        "searcher.shop: 3 turns, 2 tool calls",
        "tokens of searcher: 75",
    ],
    "agent-registry": [
        "- auditor: Reads files and judges them. Changes nothing. (tools: glob, read)",
        "operator.op: bash ran: written",
        "auditor.au: bash refused:",
        "a misspelt tool: agent 'auditor'",
        "did you mean 'read'?",
    ],
    "subagent-isolation": [
        "Page 7 has the best January",
        "the caller's transcript: 4 messages",
        "the reader's transcript: 8 messages",
        "tool calls: 1 of the caller, 12 of its sub-agents",
        "tokens: 30 of the caller, 90 in all",
    ],
    "subagent-limits": [
        "max_turns 2 was met by main/digger.t",
        "[incomplete: max_turns 2]",
        "depth 2 was met by main/ping.t/pong.t",
        "status: incomplete, limit: requests",
    ],
    "split-delegate-reduce": [
        "Version 2.4",
        "- A dark theme\n\nFixed\n- An empty cart no longer crashes",
        "main/writer.features: done, 30 tokens",
    ],
    "mcp-and-skills": [
        "servers: {'shop': {'status': 'connected', 'reason': None}}",
        "tools: shop_levels, shop_order, skill",
        "ordered 17 tea, now 20",
        "ordered 20 cocoa, now 20",
    ],
    "agents-from-files": [
        "reviewer.md: tools: WebSearch does not exist here and is left out",
        "runner.md: tools: Read(…) is left out",
        "  reviewer: ['read', 'grep', 'glob']\n  runner: ['bash']\n",
        "reviewer.re: bash refused: unknown tool 'bash'",
        "runner.ru: bash ran: 5",
    ],
    "config-file": [
        "tools: grep, read, task",
        "checker.c: open.txt:1:OPEN the price list lacks the new plan",
        "Thursday holds once the price list has the new plan.",
        "agents.reader.max_turn: unknown key; did you mean 'max_turns'?",
        "did you mean 'checker'?",
    ],
    "images": [
        "the prompt's image: shelf.png image/png",
        "the tool's image: image/png",
        "Five red boxes this morning, three now",
    ],
    "approval": [
        "asked: main/cleaner.m4 wants 'mkdir archive', rule 'bash': no",
        "the edited run:\n  touch evil.txt -> refused: the arguments of 'bash'",
        "ls && rm notes.txt -> denied: 'bash' may not be called so (permissions: 'bash(rm *)')",
        "  main/cleaner.m4:\n    rm notes.txt -> denied:",
        "files: ['approved.txt', 'notes.txt']",
    ],
    "resume-in-another-process": [
        'first process: pending, 3 requests: run bash with {"command": "touch notes.md"}?',
        "second process: approval of {'command': 'touch notes.md'}",
        "second process: done, 4 requests: One file was there; notes.md is made.",
        "notes.md: True",
    ],
    "sandboxed-bash": [
        "outside of it: ['project']",
        "connections to this machine: 0",
        "Only what stays in the folder can be kept",
    ],
    "observability": [
        "invoke_agent main\n  chat a script",
        "\n  execute_tool task\n    invoke_agent weigher\n",
        "\n      execute_tool weigh\n",
        "tokens on spans: 90, used: 90",
        'toolnexus_tool_calls_total{tool="weigh",source="native",is_error="false"} 2',
        'toolnexus_sub_agents_total{agent="weigher",status="done"} 2',
    ],
    "long-run": [
        "messages in the notes",
        "The second anchor lies below the cook's bunk (day 3).",
        "41 turns, ",
        " 82 messages kept",
    ],
    "typed-answer": [
        "the estimate: {'hours': 6, 'sure': False}",
        '- severity: expected one of "low", "high", got "urgent"',
        "high: payments, 6 hours, due 2026-03-01",
    ],
    "research-pipeline": [
        "At high water, which follows the moon",
        "sources: harbour, tides",
        "researcher.0.2.1: 2 turns, 30 tokens\n  editor.0.3: 2 turns, 60 tokens\nall: 135 tokens",
        "n_3 -. may ask .-> n_3_0",
    ],
    "graph-assistant": [
        "chat (inference): done\ntools (tool): done",
        "  it says: done: 4 messages",
        "One: the second came aboard on day 3",
        "last checkpoint: behind ['finalize'], 4 nodes were routed",
    ],
    "graph-parallel-review": [
        "fork bugs style secrets\nbugs starts\nstyle starts\nstyle: done",
        "secrets: skipped",
        "Not yet: it may charge twice; what is returned has no name.",
        "45 tokens, 2 reviewers",
    ],
    "graph-steer": [
        "tool: ['Rome: 19 degrees Celsius']\nuser: In Fahrenheit, please.",
        "It is 66 degrees Fahrenheit in Rome.",
    ],
    "graph-custom-node": [
        "Good day, Ada! Three anchors cost 240 EUR.",
        "not_found (404) in price: we have no 'whistle'",
        "unknown field 'articel'; did you mean 'article'?",
    ],
    "graph-deploy": [
        "the referee reads 70 characters\nthe referee reads 31 characters",
        "6 words: Rain finds those without a hat.",
        "the writer took 2 requests",
    ],
    "two-runners": [
        "No ferry Sunday\nLe bac ne circule pas dimanche.",
        "another script: 2 requests, 30 tokens",
    ],
    "remote-agent": [
        "- pricing: Knows what things of a ship cost.\n- stock: Knows what is in the store room.",
        "pricing asks: In which currency: EUR or USD?",
        "pricing.price: an anchor costs 80 EUR\nstock.stock: 3 anchors\n",
        "There are 3 anchors, at 80 EUR each.",
    ],
    "openapi": [
        "tool order: Order an article. ['body']\n  {\"tea\": 3",
        '  HTTP 409: {"error": "only 3 left"}',
        "  'order' was not run, its arguments are wrong: - body.amount: expected integer",
        '  {"ordered": 5, "left": 7}',
        "Five green teas are ordered",
    ],
    "serve": [
        "card: Storekeeper: Keeps the shop in stock.",
        'it asks: run order with {"item": "tea", "count": 20}?',
        "it says: 20 packs of tea are on their way.",
        "tools: levels\nlevels: ",
        '"tea":23',
        "without the token: 401",
    ],
    "streaming": [
        "main: starts forecaster.oslo",
        "forecaster.rome: measure -> 19 degrees",
        "main: Oslo wants a coat and gloves, Rome a light jacket.",
        "done, 169 tokens in all",
    ],
}


class Program:
    """One example, copied away from the repository and run from yet another folder: by an interpreter that
    is warm."""

    def __init__(self, tmp_path: Path, warm: Warm) -> None:
        self._warm = warm
        self.home = tmp_path / "copy"
        self.elsewhere = tmp_path / "elsewhere"
        self.elsewhere.mkdir()

    def run(self, name: str, **variables: str) -> str:
        """Its output. Fails unless it ends well, in silence on stderr, with nothing left behind."""
        folder = self.home / name
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
        before = _files(folder)
        program, env = folder / "main.py", {**_environment(), **variables}
        done = self._warm.run(program, cwd=self.elsewhere, env=env, strict=True)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        assert _files(folder) == before and _files(self.elsewhere) == []
        assert _running(folder) == []
        return done.stdout


def _environment() -> dict[str, str]:
    """Ours without any model, key or endpoint."""
    kept = {k: v for k, v in os.environ.items() if not re.search("KEY|TOKEN|BASE_URL|TOOLNEXUS", k)}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def _running(folder: Path) -> list[str]:
    """Processes that have something of the folder on their command line."""
    lines: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            lines.append(line)
    return lines


@pytest.fixture
def program(warm: Warm, tmp_path: Path) -> Program:
    return Program(tmp_path, warm)


class Outputs:
    """What the examples say without a key: each runs once, when it is first asked for."""

    def __init__(self, folders: pytest.TempPathFactory, warm: Warm) -> None:
        self._folders = folders
        self._warm = warm
        self._known: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._known:
            self._known[name] = Program(self._folders.mktemp(name), self._warm).run(name)
        return self._known[name]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Outputs:
    return Outputs(tmp_path_factory, warm)


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_without_a_key(outputs: Outputs, name: str) -> None:
    """[EX-01] It runs at once, says that the model is a script, and shows what it is about."""
    output = outputs[name]
    assert output.startswith("model: a script (set TOOLNEXUS_MODEL for a real one)\n")
    for part in SAYS[name]:
        assert part in output


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SAYS)
def test_an_example_takes_a_real_model_from_the_environment(program: Program, name: str) -> None:
    """[EX-02] `TOOLNEXUS_MODEL` replaces the script, and no answer of a model breaks the program."""
    with ScriptedEndpoint([{"text": "I did it all myself."}], repeat_last=True) as endpoint:
        output = program.run(name, TOOLNEXUS_MODEL="openai:some-model", OPENAI_BASE_URL=endpoint.url)
    assert output.startswith("model: openai:some-model\n") and "I did it all myself." in output
    assert {seen.model for seen in endpoint.requests} == {"some-model"}


def test_hello_is_five_lines_and_talks_to_a_real_endpoint(program: Program) -> None:
    """[EX-03] Synchronous, five lines, no key for an endpoint of one's own."""
    assert len((EXAMPLES / "hello" / "main.py").read_text(encoding="utf-8").splitlines()) == 5
    with ScriptedEndpoint([{"text": "It takes work off your hands."}]) as endpoint:
        assert program.run("hello", OPENAI_BASE_URL=endpoint.url) == "It takes work off your hands.\n"
    (seen,) = endpoint.requests
    assert seen.model == "gpt-5-mini" and "sub-agent" in seen.body["messages"][-1]["content"]


def test_hello_without_a_key_says_what_to_do(tmp_path: Path) -> None:
    """[EX-03] The error names the variable to set and the way around it."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "hello" / "main.py")],
        cwd=tmp_path,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and "OPENAI_API_KEY" in last and "base_url" in last


def test_both_sub_agents_start_before_the_first_one_ends(outputs: Outputs) -> None:
    """[EX-04] The fan-out example shows what it claims."""
    lines = [line.strip() for line in outputs["subagent-fanout"].splitlines()]
    order = [line.split()[1].rstrip(":") for line in lines if re.match(r"searcher\.\w+ (starts|ends)", line)]
    assert order == ["starts", "starts", "ends", "ends"]


def test_the_isolation_example_shows_the_difference(outputs: Outputs) -> None:
    """[EX-05] The sub-agent read a hundred times what its caller did."""
    output = outputs["subagent-isolation"]
    caller, reader = map(int, re.findall(r"transcript: \d+ messages, (\d+) characters", output))
    assert caller * 100 < reader


def test_a_toy_is_held_against_the_fixtures(outputs: Outputs) -> None:
    """[EX-07] The conformance example drives a toy of its own, with all four outcomes."""
    lines = outputs["conformance"].splitlines()
    shown = [line.split()[:2] for line in lines if not line.startswith(" ")]
    assert shown[:4] == [["ok", "ok"], ["ok", "partly"], ["ok", "FAILED"], ["ok", "unsupported"]]
    assert lines[-1] == "toy 1: 4 cases, 1 partly, 1 failed, 1 unsupported"


def test_every_example_is_tested_and_explained() -> None:
    """[EX-06] Each folder has a program, a test here and a page that says how to run it."""
    folders = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
    assert folders == sorted(["hello", "conformance", *SAYS])
    for name in folders:
        page = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {name}\n") and f"python examples/{name}/main.py" in page
        assert len(page.splitlines()) <= 20
