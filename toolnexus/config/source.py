"""Where a document comes from: a file of one of three formats, or a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from toolnexus.core import plain
from toolnexus.core.files import read_text, reason
from toolnexus.core.formats import READERS
from toolnexus.core.names import did_you_mean
from toolnexus.core.plain import kind_of
from toolnexus.errors import ConfigError

MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """A document before anybody looked at its keys."""

    where: str
    """How errors call it."""
    folder: Path
    """What relative paths in it are relative to."""
    data: Mapping[str, Any]
    findings: tuple[str, ...]
    """What was wrong with single values; they are left out of `data`."""
    cut: frozenset[plain.Path]
    """Where they stood."""


def read_source(source: str | Path | Mapping[str, Any]) -> Source:
    """The document of a file or a mapping. Raises `ConfigError` when it is none."""
    if isinstance(source, Mapping):
        where, folder, data = "the mapping", Path.cwd(), cast("object", source)
    elif isinstance(source, (str, Path)):
        where, path = str(source), Path(source).expanduser().absolute()
        folder, data = path.parent, _read(path, where)
    else:
        raise ConfigError(
            f"a config document is the path of a file or a mapping, not {kind_of(cast('object', source))}"
        )
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: it must hold a table of keys at the top, not {kind_of(data)}")
    try:
        found = plain.Plain(cast("Mapping[object, object]", data))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    if not found.data and not found.findings:
        raise ConfigError(f"{where}: it is empty; write at least a model, such as 'openai:gpt-5-mini'")
    return Source(where, folder, found.data, tuple(found.findings), frozenset(found.cut))


def is_deployment(data: Mapping[str, Any]) -> bool:
    """Whether a document is one of a deployment (`graph.deploy`), by what only those have."""
    agents: Any = data.get("agents")
    entries = cast("Mapping[str, Any]", agents).values() if isinstance(agents, Mapping) else ()
    return (
        "resources" in data
        or "runtime" in data
        or any(isinstance(entry, Mapping) and "engine" in entry for entry in entries)
    )


def _read(path: Path, where: str) -> object:
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        near = did_you_mean(path.suffix, READERS)
        raise ConfigError(
            f"{where}: {path.suffix or path.name!r} tells no format; allowed are {', '.join(READERS)}{near}"
        )
    try:
        text = read_text(path, MOST_BYTES)
    except OSError as error:
        raise ConfigError(f"{where}: it cannot be read: {reason(error)}") from None
    try:
        data = reader(text)
    except RecursionError:
        raise ConfigError(f"{where}: it does not parse: it is nested too deeply") from None
    except ValueError as error:  # its cause may quote a line that holds a secret
        raise ConfigError(f"{where}: it does not parse: {' '.join(str(error).split())}") from None
    return {} if data is None else data
