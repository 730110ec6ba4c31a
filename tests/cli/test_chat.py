"""`toolnexus chat`, at a terminal and through a pipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.helpers import PROGRAM, Terminal, cli
from tests.warm import Warm
from toolnexus.testing import ScriptedEndpoint, Turn

WITHOUT = f"""
import sys
extra = ("prompt_toolkit", "rich")
gone = [name for name in sys.modules if name.startswith(extra)]
sys.modules.update(dict.fromkeys([*extra, *gone]))
{PROGRAM}
"""
PROGRAMS = {"with the extra": PROGRAM, "without it": WITHOUT}


def chat(endpoint: ScriptedEndpoint, *options: str) -> list[str]:
    return ["chat", "--model", "openai:tiny", "--base-url", endpoint.url, *options]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_an_answer_can_be_stopped_and_the_talk_goes_on(warm: Warm, tmp_path: Path, program: str) -> None:
    """[CLI-50] Ctrl-C stops the answer on its way and nothing else; the next line is answered in the same
    conversation; Ctrl-D leaves with 0. With and without the packages of the extra."""
    turns = [Turn(text="first answer"), Turn(hang=True), Turn(text="third answer")]
    with ScriptedEndpoint(turns) as endpoint:
        with Terminal(warm, tmp_path, chat(endpoint), program=program) as terminal:
            terminal.expect(">")
            terminal.send("one\r")
            at = terminal.expect("first answer")
            at = terminal.expect(">", after=terminal.expect("done, 1 agent", after=at))
            terminal.send("two\r")
            assert wait_for(endpoint, terminal, 2)
            terminal.send("\x03")
            at = terminal.expect(">", after=terminal.expect("stopped", after=at))
            terminal.send("three\r")
            at = terminal.expect("third answer", after=at)
            at = terminal.expect(">", after=terminal.expect("done, 1 agent", after=at))
            terminal.send("\x04")
            assert terminal.wait() == 0
        said = [m["content"] for m in endpoint.requests[-1].body["messages"] if m["role"] == "user"]
    assert said == ["one", "two", "three"]
    assert "Traceback" not in terminal.output


def wait_for(endpoint: ScriptedEndpoint, terminal: Terminal, requests: int) -> bool:
    """Whether that many requests have arrived, while the terminal is read."""
    for _ in range(400):
        if len(endpoint.requests) >= requests:
            return True
        terminal.read(0.05)
    return False


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_ctrl_c_at_the_prompt_only_says_how_to_leave(warm: Warm, tmp_path: Path, program: str) -> None:
    """[CLI-51] At the prompt Ctrl-C ends nothing."""
    with ScriptedEndpoint([Turn(text="still here")]) as endpoint:
        with Terminal(warm, tmp_path, chat(endpoint), program=program) as terminal:
            terminal.expect(">")
            terminal.send("\x03")
            at = terminal.expect(">", after=terminal.expect("(Ctrl-D leaves)"))
            terminal.send("hello\r")
            at = terminal.expect("still here", after=at)
            terminal.expect(">", after=terminal.expect("done, 1 agent", after=at))
            terminal.send("/quit\r")
            assert terminal.wait() == 0


def test_lines_through_a_pipe_are_a_conversation(tmp_path: Path) -> None:
    """[CLI-52] Every line is a command or a question; answers go to standard output, the rest to standard
    error; the end of input leaves with 0; a failed answer ends nothing."""
    refused = Turn(status=400, body='{"error": {"message": "too hot"}}')
    with ScriptedEndpoint([Turn(text="one"), refused, Turn(text="three"), Turn(text="four")]) as endpoint:
        lines = "/help\n/tools\nfirst\nsecond\n\nthird\n/new\n/fly\nfourth"
        done = cli(tmp_path, *chat(endpoint), stdin=lines)
        histories = [[m["content"] for m in seen.body["messages"][1:]] for seen in endpoint.requests]
    assert done.returncode == 0
    assert done.stdout == "one\nthree\nfour\n"
    assert "builtin: glob, grep, question, read, task" in done.stderr
    assert "failed: " in done.stderr
    assert "too hot" in done.stderr
    assert "there is no command '/fly'" in done.stderr
    assert histories[2] == ["first", "one", "second", "third"]
    assert histories[3] == ["fourth"]


def test_a_kept_conversation_goes_on_in_the_next_chat(tmp_path: Path) -> None:
    """[CLI-53] With `--store` a chat says under which id it is kept, and continues one."""
    with ScriptedEndpoint([Turn(text="one"), Turn(text="two")]) as endpoint:
        options = ["--store", "talk.db", "--conversation", "c7"]
        first = cli(tmp_path, *chat(endpoint, *options), stdin="first")
        cli(tmp_path, *chat(endpoint, *options), stdin="second")
        history = [m["content"] for m in endpoint.requests[1].body["messages"][1:]]
    assert "conversation 'c7' in talk.db" in first.stderr
    assert history == ["first", "one", "second"]
