"""A client as a document: one file, or a mapping of the same shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from toolnexus.client import Client
from toolnexus.config.source import read_source
from toolnexus.core.options import items
from toolnexus.core.tools import Tool
from toolnexus.errors import ConfigError
from toolnexus.tools.source import ToolSource

_NEVER_NONE = (
    "agents",
    "tools",
    "hooks",
    "system_prompt",
    "max_turns",
    "max_sub_agent_depth",
    "max_sub_agents",
)
"""Options of a client that cannot be None: as an override it means that the option is not given."""
_WORDS = (
    ("pass api_key=…", 'write api_key = "${NAME}"'),
    ("base_url=…", "base_url"),
    ("headers=…", "headers"),
)
_MOST_LINES = 100
_LONGEST_LINE = 1000


def load(source: str | Path | Mapping[str, Any], **overrides: Any) -> Client:
    """The client that a config document describes.

    `source` is the path of a `.toml`, `.json` or `.yaml` file, or a mapping of the same shape.
    `overrides` are options of `Client`; each takes the place of what the document says, and what a
    document cannot hold is given this way: functions, hooks, model objects. Only `tools` come beside
    those of the document. Raises `ConfigError` with a line for everything that is wrong.
    """
    document = Document.read(source)
    if overrides.get("tools") is not None:
        more = items("tools", overrides["tools"], "give a list, such as tools=[function]")
        overrides["tools"] = [*document.tools(), *more]
    return document.client(**overrides)


class Document:
    """A config document that was read and found right. Its repr shows no value."""

    @classmethod
    def read(cls, source: str | Path | Mapping[str, Any]) -> Document:
        """Read and check a document; variables are looked up now, and nothing is started.

        Raises `ConfigError` with a line for everything that is wrong in it. What only the
        surroundings lack, such as a variable that is not set, is raised when it is used.
        """
        return cls(source)

    def __init__(self, source: str | Path | Mapping[str, Any]) -> None:
        found = read_source(source)
        self.where: str = found.where
        """The file as it was named, or `the mapping`."""
        from toolnexus.config.check import check  # loads pydantic
        from toolnexus.config.settings import Settings

        checked = check(found)
        self._settings = settings = Settings(checked, found.folder)
        findings = [*checked.findings, *settings.filler.findings]
        if findings:
            raise self._error([*findings, *settings.filler.lacking()])
        self.report: tuple[str, ...] = tuple(f"{self.where}: {line}" for line in settings.report)
        """What was read and not carried over, or could be better: one line each."""

    def __repr__(self) -> str:
        return f"Document({self.where!r})"

    @property
    def model_name(self) -> str | None:
        """The model that it names, None when it names none. Raises `ConfigError` for an unset variable."""
        endpoint = self._settings.endpoint
        if lacking := endpoint.missing.get("model"):
            raise self._error(lacking)
        return (
            endpoint.model
            if endpoint.model is None or isinstance(endpoint.model, str)
            else endpoint.model.name
        )

    @property
    def given(self) -> frozenset[str]:
        """The options of `Client` that it says something of, the model and its address apart."""
        return frozenset(self._settings.makers)

    @property
    def permissions(self) -> dict[str, str]:
        """The rules about calls that it gives; a host may add its own."""
        make = self._settings.makers.get("permissions", dict)
        return make()

    def lacking(self) -> list[str]:
        """What the surroundings lack to use all of it, a line each: variables, folders, files."""
        lines = [*self._settings.lacking({}), *self._settings.lacking_to_serve()]
        return str(self._error(lines)).splitlines() if lines else []

    def serving(self) -> dict[str, Any]:
        """The keyword arguments of `serve` that it gives; `a2a` and `mcp` when it has their tables.

        Raises `ConfigError` with a line for everything that is missing around it.
        """
        if lacking := self._settings.lacking_to_serve():
            raise self._error(lacking)
        return deepcopy(self._settings.serving)

    def address(self, overrides: Mapping[str, Any]) -> tuple[str | None, str | None]:
        """Base URL and key of its model beside some options of the host; each None when it says none.

        Raises `ConfigError` for an unset variable.
        """
        endpoint = self._settings.endpoint.used(overrides)
        if lacking := [line for lines in endpoint.missing.values() for line in lines]:
            raise self._error(lacking)
        return endpoint.base_url, endpoint.api_key

    def view(self, **overrides: Any) -> Client:
        """A client for looking at what there is: its models cannot be asked, so that no key is needed.

        Raises `ConfigError` like `client`.
        """
        if lacking := self._settings.lacking_to_look(overrides):
            raise self._error(lacking)
        try:
            return Client(**self._settings.options_to_look(overrides))
        except ConfigError as error:
            error.args = self._error(self._settings.filler.redact(str(error)).splitlines()).args
            raise error from None

    def options(self) -> dict[str, Any]:
        """The keyword arguments of `Client` that the document gives; new objects each time.

        Raises `ConfigError` with a line for everything that is missing around it.
        """
        return self._options({})

    def tools(self) -> list[Tool | ToolSource]:
        """The tools of its APIs and requests. Raises `ConfigError` for what is missing around them."""
        if lacking := self._settings.filler.lacking(["tools"]):
            raise self._error(lacking)
        make = self._settings.makers.get("tools")
        return [] if make is None else list(make())

    def endpoint(self, **overrides: Any) -> dict[str, Any]:
        """The options of `Client` about its model that the document gives, some replaced.

        Raises `ConfigError` with a line for every variable that is missing.
        """
        used = self._settings.endpoint.used(overrides)
        if lacking := [line for lines in used.missing.values() for line in lines]:
            raise self._error(lacking)
        return used.options()

    def client(self, **overrides: Any) -> Client:
        """A client of these options, some replaced; see `load`.

        A key and headers of the document are left out when `overrides` name another address or a
        model of another style. Raises `ConfigError`.
        """
        options = self._options(overrides)
        try:
            return Client(**options)
        except ConfigError as error:
            text = _worded(self._settings.filler.redact(str(error)))
            own = {name: value for name, value in self._options(overrides).items() if name not in overrides}
            named = f"{self.where}: {text}" if not overrides or self._refused(own) == text else text
            error.args = (named,)  # it keeps its type
            raise error from None

    def _refused(self, options: Mapping[str, Any]) -> str | None:
        """Why there can be no client of these options of the document alone."""
        try:
            Client(**options).close()
        except ConfigError as error:
            return _worded(self._settings.filler.redact(str(error)))
        return None

    def _options(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        overrides = {n: v for n, v in overrides.items() if v is not None or n not in _NEVER_NONE}
        if lacking := self._settings.lacking(overrides):
            raise self._error(lacking)
        try:
            return self._settings.options(overrides)
        except ConfigError as error:  # such as a model of its own without its key
            raise self._error([self._settings.filler.redact(str(error))]) from None

    def _error(self, findings: Collection[str]) -> ConfigError:
        redact = self._settings.filler.redact
        lines = [f"{self.where}: {_short(_worded(redact(line)))}" for line in list(findings)[:_MOST_LINES]]
        if len(findings) > _MOST_LINES:
            lines.append(f"{self.where}: and {len(findings) - _MOST_LINES} more")
        return ConfigError("\n".join(lines))


def _worded(line: str) -> str:
    """An error about options of Python in the words of a document."""
    for ours, theirs in _WORDS:
        line = line.replace(ours, theirs)
    return line


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"
