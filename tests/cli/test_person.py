"""Questions at a terminal."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Generator
from typing import Any, TextIO

import pytest

from toolnexus.cli.lines import LineReader
from toolnexus.cli.person import Person
from toolnexus.core.suspension import Request

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "required": ["city", "nights"],
    "properties": {
        "city": {"type": "string", "title": "City"},
        "nights": {"type": "integer"},
        "early": {"type": "boolean"},
        "note": {"type": "string"},
    },
}


class Keyboard:
    """A terminal: what is typed at it, and the stream at its other end."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.stream: TextIO = open(slave, "r+b", buffering=0)  # type: ignore[assignment]

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def close(self) -> None:
        os.close(self._master)
        self.stream.close()


@pytest.fixture
def keyboard() -> Generator[Keyboard]:
    keyboard = Keyboard()
    yield keyboard
    keyboard.close()


class Screen:
    """Takes what is said."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        """Nothing waits."""


async def asked(keyboard: Keyboard, request: Request, typed: str) -> tuple[Any, str]:
    screen: Any = Screen()
    keyboard.type(typed)
    async with asyncio.timeout(10):
        answer = await Person(LineReader(keyboard.stream), screen)(request)
    assert answer.id == request.id
    return (answer.data if answer.ok else answer.reason), screen.text


async def test_every_kind_of_request_can_be_answered(keyboard: Keyboard) -> None:
    """[CLI-48] Several questions give a list, a form gives typed fields, an approval needs a yes, an empty
    line declines; what cannot be answered at a terminal is declined."""
    two = [{"question": "Which?", "options": ["red", "blue"]}, {"question": "Why?"}]
    questions = Request(kind="question", prompt="p", data={"questions": two})
    assert (await asked(keyboard, questions, "2\nbecause\n"))[0] == ["blue", "because"]
    assert (await asked(keyboard, questions, "green\n\n"))[0] == "declined"
    form = Request(kind="input", prompt="Where to?", data={"schema": SCHEMA})
    data, said = await asked(keyboard, form, "Rome\n3\nyes\n\n")
    assert data == {"city": "Rome", "nights": 3, "early": True}
    assert "City: " in said
    assert "note (may be empty): " in said
    assert (await asked(keyboard, form, "\n"))[0] == "declined"
    login = Request(kind="authorization", prompt="Log in.", url="https://example.com/x")
    data, said = await asked(keyboard, login, "yes\n")
    assert (data, "https://example.com/x" in said) == (None, True)
    approval = Request(kind="approval", prompt="Delete all?")
    assert (await asked(keyboard, approval, "no\n"))[0] == "declined"
    assert (await asked(keyboard, approval, "\x04"))[0] == "declined"
    relay = Request(kind="tool_call", prompt="Run it yourself.")
    assert (await asked(keyboard, relay, ""))[0] == "declined"


async def test_a_cancel_ends_the_waiting_and_loses_no_line(keyboard: Keyboard) -> None:
    """[CLI-49] Waiting for a line can be cancelled at once; what is typed afterwards is still read."""
    lines = LineReader(keyboard.stream)
    waiting = asyncio.create_task(lines.line())
    await asyncio.sleep(0)
    waiting.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await waiting
        keyboard.type("one\ntwo\n")
        assert [await lines.line(), await lines.line()] == ["one", "two"]


async def test_lines_come_whole_from_pipes_and_files(tmp_path: Any) -> None:
    """[CLI-49] A line may come in pieces or many at once; the last one needs no end."""
    reading, writing = os.pipe()
    with open(reading) as source:
        lines = LineReader(source)
        os.write(writing, b"on")
        first = asyncio.create_task(lines.line())
        await asyncio.sleep(0)
        os.write(writing, b"e\r\ntwo\nthr")
        os.write(writing, b"ee")
        os.close(writing)
        async with asyncio.timeout(10):
            assert [await first, await lines.line(), await lines.line(), await lines.line()] == [
                "one",
                "two",
                "three",
                None,
            ]
    path = tmp_path / "in.txt"
    path.write_text("a\nb")
    with open(path) as source:
        lines = LineReader(source)
        assert [await lines.line(), await lines.line(), await lines.line()] == ["a", "b", None]
