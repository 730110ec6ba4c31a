"""SkillSource: the `skill` tool over folders and data, and its views."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, cast

from toolnexus.core.names import did_you_mean
from toolnexus.core.options import expect, unknown_key
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.core.unicode import encodable
from toolnexus.errors import ConfigError, ToolError
from toolnexus.runtime.threads import run_in_thread
from toolnexus.tools.builtin.bounded import Clock, in_time
from toolnexus.tools.filters import FilterSpec, NameFilter
from toolnexus.tools.pre_approval import pre_approve
from toolnexus.tools.skills.definition import SkillDef, catalog, one_line, render
from toolnexus.tools.skills.given import usable
from toolnexus.tools.skills.load import (
    NOT_LOADED,
    SECONDS,
    Search,
    SkillIssue,
    first_of_each_name,
    issue,
    reread,
    skill_folder,
)

logger = logging.getLogger("toolnexus.skills")

_CALL_SECONDS = 10.0
_GRACE = 1.0
"""Seconds that a search gets to notice by itself that its time is up."""
_MAX_PROVIDED = 10_000

SkillProvider = Callable[[], Iterable[SkillDef] | Awaitable[Iterable[SkillDef]]]
"""Gives skills as data when a source opens; plain (called in a thread) or async."""

_DESCRIPTION = (
    "Load a skill: the instructions for one kind of task, with the files that belong to it.\n\n"
    "Call it before you start on a task that matches the description of a skill in the system prompt, "
    "then follow what it says. The name must be one of those listed there."
)
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "description": "Name of the skill, as listed"}},
    "required": ["name"],
    "additionalProperties": False,
}


def folders_of(skills: Iterable[SkillDef]) -> tuple[Path, ...]:
    """Where they lie, links resolved, each once."""
    return tuple(dict.fromkeys(s.root or s.folder.resolve() for s in skills if s.folder is not None))


class SkillSet:
    """An immutable set of skills: the tool that hands them out and the catalog that names them."""

    def __init__(
        self, skills: Iterable[SkillDef] = (), *, sample_limit: int = 0, pre_approve: bool = False
    ) -> None:
        self._skills = {s.name: s for s in skills}
        self._sample_limit = sample_limit
        self._pre_approve = pre_approve

    @property
    def skills(self) -> tuple[SkillDef, ...]:
        return tuple(self._skills.values())

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._skills)

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """The one tool `skill`; none for an empty set. It refuses every skill outside this set."""
        if not self._skills:
            return ()
        return (Tool("skill", _DESCRIPTION, _SCHEMA, self._execute, source="skill"),)

    @cached_property
    def roots(self) -> tuple[Path, ...]:
        """The folders of these skills, links resolved: what file tools may read beside `workdir`."""
        return folders_of(self.skills)

    def catalog(self) -> str:
        """What the system prompt says of these skills; `""` when there is nothing to say."""
        return catalog(self.skills)

    def view(self, allowed: Callable[[str], bool] | Iterable[str]) -> SkillSet:
        """The skills that are named, or whose name satisfies the predicate.

        Raises `ConfigError` for a name that does not exist.
        """
        if callable(allowed):
            keep = allowed
        else:
            wanted = NameFilter.of(tuple(allowed), "skills")
            wanted.check(self._skills, "skills")
            keep = wanted.admits
        kept = [s for s in self.skills if keep(s.name)]
        return SkillSet(kept, sample_limit=self._sample_limit, pre_approve=self._pre_approve)

    async def _execute(self, arguments: dict[str, Any], ctx: Any) -> ToolResult:
        name = arguments["name"]
        skill = self._skills.get(name)
        if skill is None:
            names = self.names
            raise ToolError(f"unknown skill {name!r}; available: {names}{did_you_mean(name, names)}")
        clock = Clock(_CALL_SECONDS, "the disk does not answer")
        try:
            text = await in_time(clock, lambda: render(self._current(skill, clock), self._sample_limit))
        except (ToolError, OSError, ValueError) as error:
            raise ToolError(f"skill {name!r} can no longer be read: {error}") from error
        if self._pre_approve:  # as it was when the source opened: a run may have written to the file since
            pre_approve(ctx.context.frame, skill.allowed_tools)
        place = skill.url if skill.folder is None else str(skill.folder)
        return ToolResult(output=text, metadata={"name": name, "dir": encodable(place)})

    def _current(self, skill: SkillDef, clock: Clock) -> SkillDef:
        return skill if skill.file is None else reread(skill, self._sample_limit, clock)


class SkillSource:
    """A tool source over skill folders and skills as data.

    `entries` are folders, `SkillDef`s and providers. Folders come first, then data in the order
    given; the first of a name wins. `sample_limit` is how many files a skill lists: 0 = 10, n,
    -1 = none. `filter` narrows by name. With `pre_approve`, calls that `allowed-tools` of a loaded
    skill names pass where a rule asks. Which skills there are is settled by `open`; what one says
    is read from its folder at each call. Raises `ConfigError` for a folder that does not exist.
    """

    name = "skills"

    def __init__(
        self,
        entries: Iterable[str | Path | SkillDef | SkillProvider],
        *,
        sample_limit: int = 0,
        filter: FilterSpec = None,
        pre_approve: bool = False,
    ) -> None:
        _check_limit(sample_limit)
        expect("skills: pre_approve", pre_approve, bool, "give True to trust what skills allow")
        given = list(entries)
        self._folders = [skill_folder(e) for e in given if isinstance(e, (str, Path))]
        self._data = [e for e in given if not isinstance(e, (str, Path))]
        self._sample_limit = sample_limit
        self._filter = NameFilter.of(filter, "skills")
        self._pre_approve = pre_approve
        self.skill_set = SkillSet()
        """The skills it has now; empty before `open` and after `aclose`."""
        self.found: tuple[Path, ...] = ()
        """The folders of all skills that were found, also of those that are left out."""
        self.report: list[SkillIssue] = []
        """What was wrong at the last `open`."""

    @property
    def tools(self) -> Sequence[Tool]:
        return self.skill_set.tools

    @property
    def lost(self) -> bool:
        """Whether the last `open` left out what would be a skill, under a name that nobody knows."""
        return any(found["reason"] in NOT_LOADED for found in self.report)

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders of its skills, which file tools may read."""
        return self.skill_set.roots

    @property
    def closed(self) -> tuple[Path, ...]:
        """The folders of skills that it left out, which may lie in those."""
        return tuple([path for path in self.found if path not in self.roots])

    def catalog(self, names: Iterable[str] | None = None) -> str:
        """What a system prompt says of its skills, or of the named ones."""
        return (self.skill_set if names is None else self.view(names)).catalog()

    def view(self, allowed: Callable[[str], bool] | Iterable[str]) -> SkillSet:
        """The part of its skills that one agent may use, with a tool of its own."""
        return self.skill_set.view(allowed)

    async def open(self, on_change: Callable[[], None]) -> None:
        """Load everything. What cannot be loaded is reported and logged, never raised.

        Raises `ConfigError` when the filter names a skill that does not exist.
        """
        skills, report = await self._from_folders()
        for entry in self._data:
            given = [entry] if isinstance(entry, SkillDef) else await _provided(entry, report)
            skills += [s for one in given if (s := usable(one, report)) is not None]
        folders = await run_in_thread(folders_of, skills)
        skills = first_of_each_name(skills, report)
        for found in report:
            logger.warning("%s: %s (%s)", one_line(found["path"]), found["detail"], found["reason"])
        self.report = report
        self._filter.check((s.name for s in skills), "skills", awaited=("*",) if self.lost else ())
        self.found = folders
        self.skill_set = SkillSet(
            (s for s in skills if self._filter.admits(s.name)),
            sample_limit=self._sample_limit,
            pre_approve=self._pre_approve,
        )

    async def _from_folders(self) -> tuple[list[SkillDef], list[SkillIssue]]:
        """What is in the folders. One whose disk hangs costs its own skills only."""
        search = Search(self._sample_limit, SECONDS)
        for top in self._folders:
            try:
                async with asyncio.timeout(SECONDS + _GRACE):
                    await run_in_thread(search.below, top)
            except TimeoutError:
                search.report.append(issue(top, "unreadable", f"no answer within {SECONDS:g} s"))
        return list(search.skills), list(search.report)

    async def aclose(self) -> None:
        self.skill_set = SkillSet()
        self.found = ()


def skill_source(option: Any) -> SkillSource | None:
    """The source that a `skills` option describes; None when it describes nothing.

    Takes a folder, a `SkillDef`, a provider, a sequence of these, or a mapping
    `{"paths": one or several of these, "sample_limit": n, "filter": names, "pre_approve": bool}`.
    Raises `ConfigError` for any other shape and for a folder that does not exist.
    """
    settings: dict[str, Any] = {}
    if isinstance(option, Mapping):
        settings = dict(cast("Mapping[str, Any]", option))
        _check_settings(settings)
        option = settings.pop("paths", None)
    entries = _entries(option)
    return SkillSource(entries, **settings) if entries else None


def _check_settings(settings: Mapping[str, Any]) -> None:
    known = ("paths", "sample_limit", "filter", "pre_approve")
    for key in settings:
        if key not in known:
            raise unknown_key("skills", key, known)
    _check_limit(settings.get("sample_limit", 0))


def _check_limit(limit: Any) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < -1:
        raise ConfigError(
            f"skills: sample_limit={limit!r}; give 0 for ten files, a number of files, or -1 for none"
        )


def _entries(option: Any) -> list[Any]:
    if option is None or option is False:
        return []
    if _is_entry(option):
        return [option]
    if not isinstance(option, Iterable) or isinstance(option, (bytes, Mapping)):
        raise ConfigError(f"skills: {option!r}; give a folder, a SkillDef, a list of these, or a mapping")
    entries = list(cast("Iterable[Any]", option))
    for entry in entries:
        if not _is_entry(entry):
            raise ConfigError(f"skills: {entry!r} is no folder, no SkillDef and no provider of SkillDefs")
    return entries


def _is_entry(value: Any) -> bool:
    return isinstance(value, (str, Path, SkillDef)) or callable(value)


async def _provided(provider: SkillProvider, report: list[SkillIssue]) -> list[Any]:
    """What a provider gives, in its time and not without end."""
    label = getattr(provider, "__qualname__", type(provider).__name__)
    limit = asyncio.timeout(SECONDS)
    try:
        async with limit:
            given = await run_in_thread(provider)
            given = await given if inspect.isawaitable(given) else given
            skills = await run_in_thread(lambda: list(islice(given, _MAX_PROVIDED + 1)))
    except Exception as error:  # foreign code: one that fails must not take the others along
        late = limit.expired() and isinstance(error, TimeoutError)
        why = f"no skills within {SECONDS:g} s" if late else f"{type(error).__name__}: {error}"
        report.append(issue(label, "unreadable", f"the provider failed: {why}"))
        return []
    if len(skills) > _MAX_PROVIDED:
        report.append(issue(label, "unreadable", f"only the first {_MAX_PROVIDED} skills are taken"))
    return skills[:_MAX_PROVIDED]
