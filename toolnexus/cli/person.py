"""The person at the terminal, who answers what runs ask."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TextIO, cast

from toolnexus.cli.lines import LineReader
from toolnexus.cli.view.words import printable
from toolnexus.core.suspension import Answer, Request

_YES = ("y", "yes", "true")


class Person:
    """Answers requests, as `on_request`. Who sits at no terminal declines, and says so."""

    def __init__(self, lines: LineReader, out: TextIO) -> None:
        self._lines = lines
        self._out = out
        self.aside: Callable[[], AbstractContextManager[None]] = nullcontext
        """Makes room on the terminal while a question is open."""

    @property
    def is_there(self) -> bool:
        """Whether somebody is at the terminal."""
        return self._lines.is_terminal and self._out.isatty()

    async def __call__(self, request: Request) -> Answer:
        """Ask on the terminal. An empty line, or the end of input, declines."""
        if not self.is_there:
            self._say(f"declined, because nobody is at a terminal: {request.prompt}")
            return _declined(request)
        with self.aside():
            if len(path := (request.data or {}).get("path") or ()) > 1:
                self._say(f"\n{'/'.join(path)} asks:")
            match request.kind:
                case "question":
                    return await self._questions(request)
                case "input":
                    return await self._form(request)
                case "approval" | "authorization":
                    return await self._approval(request)
                case _:
                    self._say(
                        f"declined, because it cannot be answered here ({request.kind}): {request.prompt}"
                    )
                    return _declined(request)

    async def _questions(self, request: Request) -> Answer:
        questions: list[dict[str, Any]] = list((request.data or {}).get("questions") or [])
        answers: list[str] = []
        for question in questions or [{"question": request.prompt}]:
            self._say(f"\n{question['question']}")
            options: list[str] = question.get("options") or []
            for number, option in enumerate(options, 1):
                self._say(f"  {number}. {option}")
            line = await self._line("answer (empty: decline): ")
            if not line:
                return _declined(request)
            answers.append(_chosen(line, options))
        return Answer(id=request.id, data=answers[0] if len(answers) == 1 else answers)

    async def _form(self, request: Request) -> Answer:
        """One line for each field that the schema names; an optional one may stay empty."""
        schema = cast("Mapping[str, Any]", (request.data or {}).get("schema") or {})
        fields = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties") or {})
        self._say(f"\n{request.prompt}")
        if not fields:
            line = await self._line("answer (empty: decline): ")
            return Answer(id=request.id, data=line) if line else _declined(request)
        form: dict[str, Any] = {}
        for name, field in fields.items():
            required = name in (schema.get("required") or ())
            line = await self._line(
                f"  {field.get('title') or name}{'' if required else ' (may be empty)'}: "
            )
            if line:
                form[name] = _typed(line, field)
            elif required or line is None:
                return _declined(request)
        return Answer(id=request.id, data=form)

    async def _approval(self, request: Request) -> Answer:
        self._say(f"\n{request.prompt}")
        if request.url:
            self._say(f"  open: {request.url}")
        if (line := await self._line("type yes to go on: ")) and line.lower() in _YES:
            return Answer(id=request.id)
        return _declined(request)

    async def _line(self, prompt: str) -> str | None:
        self._out.write(printable(prompt))
        self._out.flush()
        line = await self._lines.line()
        return line.strip() if line is not None else None

    def _say(self, text: str) -> None:
        self._out.write(printable(text, keep="\n\t") + "\n")
        self._out.flush()


def _declined(request: Request) -> Answer:
    return Answer(id=request.id, ok=False, reason="declined")


def _chosen(line: str, options: list[str]) -> str:
    """What was meant: an option by its number, or the text itself."""
    if line.isdecimal() and 1 <= int(line) <= len(options):
        return options[int(line) - 1]
    return line


def _typed(line: str, field: Mapping[str, Any]) -> Any:
    """The value that a line stands for; what is no number where one is wanted stays text."""
    match field.get("type"):
        case "boolean":
            return line.lower() in _YES
        case "integer" | "number" | "array":
            try:
                return json.loads(line)
            except ValueError:
                return line
        case _:
            return line
