"""Files and folders of agents.

What it is: which files there are, and one verdict on all of them. What it is not: a format; those
stand behind `format.AgentFormat`, one module each.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from toolnexus.agents.format import Found, Written
from toolnexus.agents.hosts import ENDINGS, format_of, is_document, name_by_place, places_in
from toolnexus.core.files import NOT_REGULAR, read_text, reason
from toolnexus.core.options import expect, items
from toolnexus.engine.agent import Agent
from toolnexus.errors import ConfigError, NameConflict

logger = logging.getLogger("toolnexus.agents")

MOST_BYTES = 1 << 20
MOST_SHOWN = 20
NO_AGENT = "it has no front matter, so it is no agent"
_SKIPPED = ("node_modules",)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFiles:
    """What files of agents gave."""

    agents: tuple[Agent, ...]
    """Sorted by name."""
    places: dict[str, str]
    """The file of each agent, by its name."""
    report: tuple[str, ...]
    """What was not carried over, a line each: `file: key: why`."""


def load_agents(*paths: str | Path, models: Mapping[str, str] = {}) -> list[Agent]:
    """The agents of files and folders (`.claude/agents`), sorted by name, for `Client(agents=…)`.

    A file is read as its host means it, known by its place: `.claude/agents`, `.opencode/agents`,
    `opencode.json`, `.github/agents`, `.cursor/agents`, `.codex/agents`, `.gemini/agents`; Markdown
    elsewhere is read as that of Claude Code. A folder is searched at any depth; one that has such
    places in it is a project, and only they are read. `models` says what an alias such as `haiku` means:
    `{"haiku": "anthropic:claude-haiku-4-5"}`; an alias that it does not hold means the caller's
    model. What a file says and an agent here cannot have is logged (`toolnexus.agents`), and never
    makes an agent that may do more. Nothing in a file is run or expanded.

    Raises `ConfigError` that names every file that is wrong, every name that is given twice, and
    every path that does not exist.
    """
    if not paths:
        raise ConfigError("load_agents() needs a file or a folder, such as load_agents('.claude/agents')")
    found = read_agents(paths, models=models)
    for line in found.report:
        logger.warning("%s", line)
    return list(found.agents)


def read_agents(paths: Sequence[str | Path], *, models: Mapping[str, str] = {}) -> AgentFiles:
    """`load_agents` that logs nothing and also tells the places and the report."""
    expect("models", models, Mapping, "give a mapping of alias to model")
    for alias, model in models.items():
        expect(f"models[{alias!r}]", model, str, "give 'provider:name'")
    reading = _Reading(models)
    for path in items("paths", paths, "give a list of files and folders"):
        expect("path", path, (str, Path), "give the path of a file or a folder")
        reading.read(path)
    return reading.done()


class _Reading:
    """One pass over all paths: what was found, and everything that is wrong with it."""

    def __init__(self, models: Mapping[str, str]) -> None:
        self._models = models
        self._agents: dict[str, Agent] = {}
        self._places: dict[str, str] = {}
        self._report: list[str] = []
        self._wrong: list[str] = []
        self._twice: list[str] = []
        self._seen: set[str] = set()

    def read(self, given: str | Path) -> None:
        path = Path(os.path.abspath(os.path.expanduser(given)))
        kind = _kind(path) if str(given) else None
        if kind is None:
            why = "it does not exist, or may not be looked at"
            self._wrong.append(f"{_shown(path) if str(given) else repr('')}: {why}")
        elif os.path.realpath(path) in self._seen:
            return
        elif stat.S_ISDIR(kind):
            self._folder(path)
        elif format_of(path, named=True) is None:
            self._wrong.append(f"{_shown(path)}: its name does not end in {ENDINGS}, as those of agents do")
        else:
            self._file(path, named=True)

    def _folder(self, path: Path) -> None:
        places = places_in(path)
        for place in places:
            if place.is_dir():
                self._all_below(place)
            elif not self._is_seen(place):
                self._read(place, named=False)
        if not places:
            self._all_below(path)

    def _all_below(self, path: Path) -> None:
        files = list(self._below(path))
        for file in files:
            self._file(file, named=False)
        if not files:
            self._report.append(f"{_shown(path)}: it holds no file of an agent")

    def done(self) -> AgentFiles:
        """Raises `ConfigError` with everything that is wrong."""
        wrong = self._wrong + self._twice
        if wrong:
            more = len(wrong) - MOST_SHOWN
            text = "\n".join([*wrong[:MOST_SHOWN], *([f"… and {more} more"] if more > 0 else [])])
            raise ConfigError(text) if self._wrong else NameConflict(text)
        return AgentFiles(
            agents=tuple(agent for _, agent in sorted(self._agents.items())),
            places=self._places,
            report=tuple(self._report),
        )

    def _below(self, folder: Path) -> Iterator[Path]:
        """The files of all formats below `folder`, hidden ones left out; each folder is entered once."""
        waiting = [str(folder)]
        while waiting:
            place = waiting.pop()
            if self._is_seen(place):
                continue
            try:
                names = sorted(n for n in os.listdir(place) if not n.startswith(".") and n not in _SKIPPED)
            except OSError as error:
                self._wrong.append(f"{_shown(place)}: it cannot be read: {error.strerror}")
                continue
            paths = [os.path.join(place, name) for name in names]
            folders = {path: None for path in paths if os.path.isdir(path)}
            waiting += reversed(folders)
            for path in paths:
                if path not in folders and format_of(Path(path), named=False):
                    yield Path(path)

    def _is_seen(self, path: str | Path) -> bool:
        """Whether it was here before, by whatever way; now it was."""
        real = os.path.realpath(path)
        known = real in self._seen
        self._seen.add(real)
        return known

    def _file(self, file: Path, *, named: bool) -> None:
        """Read one file. `named`: its path was given outright, so it must define an agent."""
        if not self._is_seen(file):
            self._read(file, named=named)

    def _read(self, file: Path, *, named: bool) -> None:
        place, no_agent = _shown(file), NOT_REGULAR
        found: Sequence[Found] = ()
        if stat.S_ISREG(_kind(file) or 0):
            try:
                text = read_text(file, MOST_BYTES)
            except OSError as error:
                self._wrong.append(f"{place}: it cannot be read: {reason(error)}")
                return
            read = format_of(file, named=True)
            assert read is not None
            found = read(Written(text, name_by_place(file), self._models))
            no_agent = NO_AGENT if file.suffix.lower() == ".md" else "it defines no agent"
        if not found and named:
            self._wrong.append(f"{place}: {no_agent}")
        elif not found and not is_document(file):  # one that has no agents is about something else
            self._report.append(f"{place}: {no_agent}")
        for one in found:
            self._take(one, place)

    def _take(self, found: Found, place: str) -> None:
        """Keep what is said of one agent, and the agent."""
        remarks, prefix = found.remarks, place
        if remarks.place:
            prefix = f"{place}: {_shown(remarks.place)}"
        self._wrong += [f"{prefix}: {line}" for line in remarks.wrong]
        self._report += [f"{prefix}: {line}" for line in remarks.lost]
        if remarks.name is None:
            return
        first = self._places.setdefault(remarks.name, prefix)
        if first != prefix:
            self._twice.append(f"{prefix}: name: {remarks.name!r} is the agent of {first} already")
        elif found.agent is not None:
            self._agents[remarks.name] = replace(found.agent, origin=prefix)


def _kind(path: Path) -> int | None:
    """The mode of what is there; None when nothing is, or nobody can tell."""
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return None


def _shown(path: str | Path) -> str:
    """A path on one line that can be printed, whatever is in its name."""
    text = str(path).encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
