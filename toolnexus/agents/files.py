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

from toolnexus.agents.claude import read_claude_agent
from toolnexus.agents.format import AgentFormat, Remarks
from toolnexus.core.files import NOT_REGULAR, read_text, reason
from toolnexus.core.options import expect, items
from toolnexus.engine.agent import Agent
from toolnexus.errors import ConfigError, NameConflict

logger = logging.getLogger("toolnexus.agents")

MOST_BYTES = 1 << 20
MOST_SHOWN = 20
_FORMATS: Mapping[str, AgentFormat] = {".md": read_claude_agent}
"""The format of a file, by the end of its name."""
_ENDINGS = " or ".join(_FORMATS)
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

    A folder is searched for `*.md` at any depth. `models` says what an alias such as `haiku` means:
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
            files = list(self._below(path))
            for file in files:
                self._file(file, named=False)
            if not files:
                self._report.append(f"{_shown(path)}: it holds no file that ends in {_ENDINGS}")
        elif path.suffix.lower() not in _FORMATS:
            self._wrong.append(f"{_shown(path)}: its name does not end in {_ENDINGS}, as those of agents do")
        else:
            self._file(path, named=True)

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
                if path not in folders and os.path.splitext(path)[1].lower() in _FORMATS:
                    yield Path(path)

    def _is_seen(self, path: str | Path) -> bool:
        """Whether it was here before, by whatever way; now it was."""
        real = os.path.realpath(path)
        known = real in self._seen
        self._seen.add(real)
        return known

    def _file(self, file: Path, *, named: bool) -> None:
        """Read one file. `named`: its path was given outright, so it must define an agent."""
        if self._is_seen(file):
            return
        place, remarks = _shown(file), Remarks()
        agent, no_agent = None, NOT_REGULAR
        if stat.S_ISREG(_kind(file) or 0):
            try:
                text = read_text(file, MOST_BYTES)
            except OSError as error:
                self._wrong.append(f"{place}: it cannot be read: {reason(error)}")
                return
            agent = _FORMATS[file.suffix.lower()](text, self._models, remarks)
            no_agent = "it has no front matter, so it is no agent"
        if agent is None and not remarks.wrong:
            (self._wrong if named else self._report).append(f"{place}: {no_agent}")
            return
        self._wrong += [f"{place}: {line}" for line in remarks.wrong]
        self._report += [f"{place}: {line}" for line in remarks.lost]
        if remarks.name is not None:
            first = self._places.setdefault(remarks.name, place)
            if first != place:
                self._twice.append(f"{place}: name: {remarks.name!r} is the agent of {first} already")
            elif agent is not None:
                self._agents[remarks.name] = replace(agent, origin=place)


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
