"""Conversations that wait for answers, at the command line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import Terminal, process
from tests.warm import Warm
from toolnexus.cli.main import main
from toolnexus.testing import ScriptedEndpoint, Turn

QUESTIONS = {"questions": [{"question": "Which city?"}, {"question": "When?"}]}
ASKING = Turn(
    calls=[
        {"name": "bash", "args": {"command": "echo ran >> log"}},
        {"name": "bash", "args": {"command": "echo never >> log"}},
        {"name": "question", "args": QUESTIONS},
    ]
)


class Here:
    """The command in this process, where nobody is at a terminal."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self.said = ""

    def options(self, endpoint: ScriptedEndpoint) -> list[str]:
        known = ["--model", "openai:t", "--base-url", endpoint.url, "--builtins", "bash,question"]
        return [*known, "--ask", "bash", "--store", "talk.db"]

    def run(self, *arguments: str) -> tuple[int, str]:
        code = main(arguments)
        out, self.said = self._capsys.readouterr()
        return code, out

    def commands(self) -> list[list[str]]:
        """What was said to type."""
        lines = [line for line in self.said.splitlines() if line.startswith("  toolnexus resume")]
        return [shlex.split(line)[1:] for line in lines]

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    for name in ("TOOLNEXUS_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("toolnexus.cli.detect.LOCAL_SERVERS", ())
    monkeypatch.chdir(tmp_path)
    return Here(tmp_path, capsys)


def results(endpoint: ScriptedEndpoint) -> list[str]:
    return [m["content"] for m in endpoint.requests[-1].body["messages"] if m["role"] == "tool"]


def test_a_run_that_waits_says_what_to_type(here: Here) -> None:
    """[CLI-107] Without a terminal a conversation waits, exit 4: each open question with its id and the
    command that answers it, which works as it stands; some now, some later; the last answer goes on."""
    with ScriptedEndpoint([ASKING, Turn(text="all done")]) as endpoint:
        code, _ = here.run("run", "go", "--conversation", "c 1", *here.options(endpoint))
        assert code == 4 and "conversation 'c 1' waits for 3 answers:" in here.said
        assert 'run bash with {"command": "echo ran >> log"}?' in here.said
        first, second, third = here.commands()
        assert here.run("resume", "c 1", *here.options(endpoint))[0] == 4
        assert here.commands() == [first, second, third]
        assert here.run(*first)[0] == 4
        assert here.log == "ran\n" and here.commands() == [second, third]
        assert here.run(*[word.replace("--approve", "--decline") for word in second])[0] == 4
        assert here.commands() == [third] and third[-1].endswith('=["…", "…"]')
        code, out = here.run(*third[:-1], third[-1].replace('["…", "…"]', '["Oslo", "May"]'))
        assert (code, out) == (0, "all done\n")
        ran, declined, answered = results(endpoint)
        assert len(endpoint.requests) == 2
    assert (ran, declined[:9], json.loads(answered)) == ("[no output]", "declined:", ["Oslo", "May"])
    assert here.log == "ran\n"


def test_a_new_prompt_waits_behind_open_questions(here: Here) -> None:
    """[CLI-108] `run` and `chat` on a conversation that waits ask nothing of the model: exit 4 and what is
    open, also as a program that reads the events."""
    with ScriptedEndpoint([ASKING]) as endpoint:
        options = ["--conversation", "c", *here.options(endpoint)]
        assert here.run("run", "go", "--json", *options)[0] == 4
        open_now = here.commands()
        assert len(open_now) == 3
        for command in (["run", "more"], ["run", "more", "--json"], ["chat"]):
            assert here.run(*command, *options) == (4, "")
            assert here.commands() == open_now
        assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("replies", "says"),
    [
        (["--approve", "Q"], "wants an answer (question): --answer"),
        (["--answer", "A=yes"], "is an approval: --approve or --decline it"),
        (["--approve", "A", "--decline", "A"], "is answered twice"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(here: Here, replies: list[str], says: str) -> None:
    """[CLI-109] Exit 2, and nothing runs; an id that nobody asked is exit 1."""
    with ScriptedEndpoint([ASKING]) as endpoint:
        here.run("run", "go", "--conversation", "c", *here.options(endpoint))
        first, _, third = (command[-1].partition("=")[0] for command in here.commands())
        replies = [word.replace("A", first).replace("Q", third) for word in replies]
        assert here.run("resume", "c", *replies, *here.options(endpoint))[0] == 2 and says in here.said
        assert here.run("resume", "c", "--approve", "req_x", *here.options(endpoint))[0] == 1
        assert "no open request has the id 'req_x'" in here.said and here.log == ""
        assert here.run("resume", "other", *here.options(endpoint))[0] == 1
        assert here.run("resume", "c", *here.options(endpoint)[:-2])[0] == 2


def test_the_same_answer_again_changes_nothing(here: Here) -> None:
    """[CLI-109] Exit code and answer are those of the run that went on."""
    once = Turn(calls=[{"name": "bash", "args": {"command": "echo ran >> log"}}])
    with ScriptedEndpoint([once, Turn(text="done")]) as endpoint:
        here.run("run", "go", "--conversation", "c", *here.options(endpoint))
        (command,) = here.commands()
        assert here.run(*command) == here.run(*command) == (0, "done\n")
    assert here.log == "ran\n"


@pytest.mark.parametrize("command", [["run", "and then?"], ["resume", "c"]])
def test_open_questions_are_asked_at_the_terminal(
    warm: Warm, tmp_path: Path, here: Here, command: list[str]
) -> None:
    """[CLI-110] All of them before anything goes on; Ctrl-C leaves them open; then the run goes on, and the
    prompt of `run` is asked."""
    turns: Any = [ASKING, Turn(text="first done"), Turn(text="second done")]
    with ScriptedEndpoint(turns) as endpoint:
        options = [*here.options(endpoint)]
        here.run("run", "go", "--conversation", "c", *options)
        whole = [*command, *(["--conversation", "c"] if command[0] == "run" else []), *options]
        with Terminal(warm, tmp_path, whole) as terminal:
            terminal.expect("type yes to go on: ")
            terminal.send("yes\n")
            terminal.expect("type yes to go on: ", after=terminal.expect("echo never"))
            terminal.send("\x03")
            assert terminal.wait() == 130
        assert here.log == ""
        with Terminal(warm, tmp_path, whole) as terminal:
            terminal.expect("type yes to go on: ")
            terminal.send("yes\n")
            terminal.expect("type yes to go on: ", after=terminal.expect("echo never"))
            terminal.send("\n")
            at = terminal.expect("answer (empty: decline): ", after=terminal.expect("Which city?"))
            terminal.send("Oslo\n")
            terminal.expect("answer (empty: decline): ", after=at)
            terminal.send("May\n")
            terminal.expect("first done")
            if command[0] == "run":
                terminal.expect("second done")
            assert terminal.wait() == 0
        assert len(endpoint.requests) == (3 if command[0] == "run" else 2)
    assert here.log == "ran\n"


def test_a_chat_asks_them_first(warm: Warm, tmp_path: Path, here: Here) -> None:
    """[CLI-110] Before its first prompt, and again before the next when they were left open."""
    once = Turn(calls=[{"name": "bash", "args": {"command": "echo ran >> log"}}])
    with ScriptedEndpoint([once, Turn(text="first done"), Turn(text="second done")]) as endpoint:
        options = ["--conversation", "c", *here.options(endpoint)]
        here.run("run", "go", *options)
        with Terminal(warm, tmp_path, ["chat", *options]) as terminal:
            at = terminal.expect("type yes to go on: ", after=terminal.expect("waits for 1 answer"))
            terminal.send("\x03")
            at = terminal.expect(">", after=terminal.expect("stopped", after=at))
            terminal.send("more\r")
            at = terminal.expect("type yes to go on: ", after=at)
            terminal.send("yes\n")
            at = terminal.expect("first done", after=at)
            at = terminal.expect("second done", after=at)
            terminal.expect(">", after=terminal.expect("done, 1 agent", after=at))
            terminal.send("\x04")
            assert terminal.wait() == 0
    assert here.log == "ran\n"


def test_a_run_that_a_crash_left_open_goes_on(warm: Warm, here: Here, tmp_path: Path) -> None:
    """[CLI-111] `resume` without answers; there has to be one."""
    killing = Turn(calls=[{"name": "bash", "args": {"command": "kill -9 $PPID"}}])
    with ScriptedEndpoint([killing, Turn(text="I saw it")]) as endpoint:
        known = ["--model", "openai:t", "--base-url", endpoint.url, "--store", "talk.db"]
        done = process(warm, tmp_path, "run", "go", "--conversation", "c", *known, "--builtins", "bash")
        assert done.returncode == -9, done.stderr
        assert here.run("resume", "c", *known, "--builtins", "bash") == (0, "I saw it\n")
        assert results(endpoint)[0].startswith("outcome unknown")
