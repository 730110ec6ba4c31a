"""What a builtin is called, takes and says: read from the definitions folder, the only list of them.

In a wheel the folder lies beside this module, in a checkout it is `builtins/` at the root.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolnexus.errors import ConfigError

_KEYS = {"name", "input_schema", "limits"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One builtin: what a model is told (`description`, `input_schema`) and the numbers it keeps to."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    limits: Mapping[str, int]


@functools.cache
def folder() -> Path:
    """Where the definitions lie. Raises `ConfigError` when the installation has none."""
    here = Path(__file__).resolve()
    for candidate in (here.parent / "definitions", here.parents[3] / "builtins"):
        if candidate.is_dir():
            return candidate
    raise ConfigError("the definitions of the builtin tools are missing; install the package again")


@functools.cache
def names() -> tuple[str, ...]:
    """Every builtin that is defined, sorted."""
    return tuple(sorted([path.stem for path in folder().glob("*.json")]))


@functools.cache
def definition(name: str) -> Definition:
    """The definition of one builtin.

    Raises `ConfigError` for a name that is not defined and for a definition that is not whole.
    """
    if name not in names():
        raise ConfigError(f"no builtin is called {name!r}; there are: {', '.join(names())}")
    try:
        data = json.loads((folder() / f"{name}.json").read_text(encoding="utf-8"))
        text = (folder() / f"{name}.md").read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"builtin {name!r}: its definition cannot be read: {error}") from error
    if set(data) != _KEYS or data["name"] != name or not text:
        keys = ", ".join(sorted(_KEYS))
        raise ConfigError(f"builtin {name!r}: its definition needs a text, its own name and the keys {keys}")
    return Definition(name=name, description=text, input_schema=data["input_schema"], limits=data["limits"])
