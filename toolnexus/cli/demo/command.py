"""The command `toolnexus demo`."""

from __future__ import annotations

import inspect
import shlex
import shutil
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, TextIO

from toolnexus.cli import loop
from toolnexus.cli.demo import program
from toolnexus.cli.demo.faults import KINDS, Fault
from toolnexus.cli.demo.figures import Figures
from toolnexus.cli.demo.kit import GOAL, REPORT, new_folder, scripted_model
from toolnexus.cli.detect import OPENAI_MODEL, Found, choose
from toolnexus.cli.exits import OF_STATUS, UsageError
from toolnexus.cli.view.base import play
from toolnexus.cli.view.choose import choose_view
from toolnexus.cli.view.draw import as_text, draw, glyphs_for
from toolnexus.cli.view.plain import PlainLines
from toolnexus.cli.view.tree import RunTree
from toolnexus.cli.view.words import printable
from toolnexus.core.events import Event
from toolnexus.core.result import RunResult

LIVE_THINK = 10.0
"""Seconds that a turn of a real model may well take."""
_REPORT_LINES = 6
_SCRIPTED = "scripted_model()"


def command(options: Namespace) -> int:
    """Play the demo. Gives the exit code of its run."""
    target = _free_place(options) if options.save is not None else None
    found = choose() if options.live else None
    code = loop.run(_Demo(options, found).play())
    if target is not None and code in OF_STATUS.values():
        _save(target, found)
    return code


class _Demo:
    """One play: what is said before, what is shown meanwhile, what was measured."""

    def __init__(self, options: Namespace, found: Found | None) -> None:
        self._options = options
        self._found = found
        self._out: TextIO = sys.stderr if options.json else sys.stdout
        self._fault: Fault | None = None
        if options.fault:
            self._fault = KINDS[options.fault](LIVE_THINK if found is not None else options.think)
        self._figures = Figures()
        self._tree = RunTree()

    async def play(self) -> int:
        folder = new_folder()
        try:
            self._say_before(folder)
            result = await self._run(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # nobody was told of anything worth keeping
            raise
        self._say_after(result, folder)
        return OF_STATUS[result.status]

    async def _run(self, folder: Path) -> RunResult:
        options: dict[str, Any] = {}
        model: Any = scripted_model(self._options.think)
        if self._found is not None:
            model = self._found.spec
            options = {"base_url": self._found.base_url, "api_key": self._found.api_key}
        if self._fault is not None:
            options |= self._fault.options()
        async with program.demo_client(folder, model, **options) as client:
            view = choose_view(self._out, plain=self._options.plain, json=self._options.json)
            try:
                result = await play(client.stream(GOAL), view, also=self._watch)
            finally:
                if self._fault is not None:
                    self._fault.release()
        if isinstance(view, PlainLines):
            glyphs = glyphs_for(self._out.encoding)
            self._say("", as_text(draw(self._tree, width=80, now=self._tree.now, glyphs=glyphs)))
        return result

    def _watch(self, event: Event) -> None:
        self._figures.feed(event)
        self._tree.feed(event)
        if self._fault is not None:
            self._fault.feed(event)

    def _say_before(self, folder: Path) -> None:
        think = f"{self._options.think:g} s"
        model = f"The model is scripted and takes {think} to think in each turn; all else is real:"
        if self._found is not None:
            model = f"The model is {self._found.spec} ({self._found.why}); it is real, and so is all else:"
        self._say(
            "toolnexus demo: a lead splits a goal, two agents work on it at once.",
            model,
            "the loop, the agents, files through an MCP server process, grep, a skill, limits.",
            f"A program with one planted bug: {folder}",
            "",
        )

    def _say_after(self, result: RunResult, folder: Path) -> None:
        mark = "scripted, counted from characters" if self._found is None else self._found.spec
        self._say("", result.text, "", *self._figures.lines(result, mark))
        if self._fault is not None:
            self._say("", *self._fault.account(result, folder))
        if (folder / REPORT).is_file():
            text = (folder / REPORT).read_text(encoding="utf-8", errors="replace")
            self._say("", f"report   {folder / REPORT}")
            self._say(*[f"         {line}".rstrip() for line in text.splitlines()[:_REPORT_LINES]])

    def _say(self, *lines: str) -> None:
        for line in lines:
            print(printable(line, keep="\n\t"), file=self._out)
        self._out.flush()


def _free_place(options: Namespace) -> Path:
    """Where `--save` may write. Raises `UsageError` for a place that is taken or cannot be."""
    target = Path(options.save)
    if options.fault is not None:
        raise UsageError("--save goes without --fault: what it writes breaks nothing")
    if target.exists() or target.is_symlink():
        raise UsageError(f"--save: {options.save!r} exists already and is left as it is; name another file")
    if not target.parent.is_dir():
        raise UsageError(f"--save: there is no folder {str(target.parent)!r}")
    return target


def _save(target: Path, found: Found | None) -> None:
    """Write the program that ran, with the model that ran it."""
    text = inspect.getsource(program)
    if found is not None:
        text = text.replace(f"REPORT, new_folder, {_SCRIPTED[:-2]}", "REPORT, new_folder")
        text = text.replace(_SCRIPTED, found.expression)
        if found.base_url is not None:
            text = text.replace("import Agent, Client\n", "import Agent, Client, OpenAIModel\n")
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"--save: {str(target)!r} cannot be written: {error.strerror}") from error
    live = (
        "" if found is not None else f"; put a model such as {OPENAI_MODEL!r} for {_SCRIPTED} to make it real"
    )
    command = shlex.join([sys.executable, str(target)])
    print(f"saved    {target}: run it with {command}{live}", file=sys.stderr)
