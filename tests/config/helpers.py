"""Documents for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from toolnexus.config import Document
from toolnexus.errors import ConfigError

AGENT_FILE = "---\nname: {name}\ndescription: Looks at {name}.\ntools: Read, Grep\n{more}---\nYou look.\n"


def toml(value: Any) -> str:
    """A value in TOML, tables inline."""
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return "{ " + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in table.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in cast("list[Any]", value)) + "]"
    return json.dumps(value)


def write(folder: Path, document: Mapping[str, Any], suffix: str = ".toml") -> Path:
    """`document` as a file of that format."""
    path = folder / f"toolnexus{suffix}"
    if suffix == ".toml":
        text = "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in document.items())
    elif suffix in (".yaml", ".yml"):
        text: str = yaml.safe_dump(document)  # pyright: ignore[reportUnknownMemberType]
    else:
        text = json.dumps(document)
    path.write_text(text, encoding="utf-8")
    return path


def agent_file(path: Path, more: str = "") -> Path:
    """A Markdown agent with the name of its file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(AGENT_FILE.format(name=path.stem, more=more), encoding="utf-8")
    return path


def refusal(source: Any) -> list[str]:
    """The lines of the error that reading `source` raises, without the name of the document."""
    try:
        document = Document.read(source)
    except ConfigError as error:
        return lines_of(error, source)
    raise AssertionError(f"{document} was taken")


def lines_of(error: ConfigError, source: Any) -> list[str]:
    where = "the mapping" if isinstance(source, Mapping) else str(source)
    lines = str(error).split("\n")
    assert all(line.startswith(f"{where}: ") for line in lines), lines
    return [line.removeprefix(f"{where}: ") for line in lines]
