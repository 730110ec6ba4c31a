"""A client as a document: one file, or a mapping of the same shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from toolnexus.client import Client
from toolnexus.config.source import read_source
from toolnexus.errors import ConfigError

_MOST_LINES = 100
_LONGEST_LINE = 1000


def load(source: str | Path | Mapping[str, Any], **overrides: Any) -> Client:
    """The client that a config document describes.

    `source` is the path of a `.toml`, `.json` or `.yaml` file, or a mapping of the same shape.
    `overrides` are options of `Client`; each takes the place of what the document says, and what a
    document cannot hold is given this way: functions, hooks, model objects. Raises `ConfigError`
    with a line for everything that is wrong.
    """
    return Document.read(source).client(**overrides)


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

    def options(self) -> dict[str, Any]:
        """The keyword arguments of `Client` that the document gives; new objects each time.

        Raises `ConfigError` with a line for everything that is missing around it.
        """
        return self._options({})

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
            text = self._settings.filler.redact(str(error))
            if text.startswith(tuple(overrides)):
                raise
            raise type(error)(f"{self.where}: {text}") from None

    def _options(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        if lacking := self._settings.lacking(overrides):
            raise self._error(lacking)
        try:
            return self._settings.options(overrides)
        except ConfigError as error:  # such as a model of its own without its key
            raise self._error([self._settings.filler.redact(str(error))]) from None

    def _error(self, findings: Collection[str]) -> ConfigError:
        lines = [f"{self.where}: {_short(line)}" for line in list(findings)[:_MOST_LINES]]
        if len(findings) > _MOST_LINES:
            lines.append(f"{self.where}: and {len(findings) - _MOST_LINES} more")
        return ConfigError("\n".join(lines))


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"
