"""What a builtin is called, takes and says: read from the definitions folder, the only list of them.

In a wheel the folder lies beside this module, in a checkout it is `builtins/` at the root.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from typing import Any

from toolnexus.core.values import frozen
from toolnexus.errors import ConfigError

_KEYS = {"name", "input_schema", "limits"}


@frozen(kw_only=True)
class Definition:
    """One builtin: what a model is told (`description`, `input_schema`) and the numbers it keeps to."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    limits: Mapping[str, int]


@functools.cache
def folder() -> str:
    """Where the definitions lie. Raises `ConfigError` when the installation has none."""
    here = os.path.dirname(os.path.realpath(__file__))
    for candidate in ("definitions", "../../../builtins"):
        if os.path.isdir(path := os.path.normpath(os.path.join(here, candidate))):
            return path
    raise ConfigError("the definitions of the builtin tools are missing; install the package again")


@functools.cache
def names() -> tuple[str, ...]:
    """Every builtin that is defined, sorted."""
    return tuple(sorted([name[:-5] for name in os.listdir(folder()) if name.endswith(".json")]))


@functools.cache
def definition(name: str, options: tuple[str, ...] = ()) -> Definition:
    """The definition of one builtin, with what the host's `options` add: arguments, and text behind its own.

    Raises `ConfigError` for a name that is not defined and for a definition that is not whole.
    """
    if name not in names():
        raise ConfigError(f"no builtin is called {name!r}; there are: {', '.join(names())}")
    try:
        data = json.loads(_text(f"{name}.json"))
        texts = [_text(f"{part}.md").strip() for part in (name, *options)]
    except (OSError, ValueError) as error:
        raise ConfigError(f"builtin {name!r}: its definition cannot be read: {error}") from error
    added = data.pop("options", {})
    if set(data) != _KEYS or data["name"] != name or not all(texts) or not added.keys() >= {*options}:
        keys = ", ".join(sorted(_KEYS))
        raise ConfigError(f"builtin {name!r}: its definition needs a text, its own name and the keys {keys}")
    schema = data["input_schema"]
    if options:
        more = {key: value for option in options for key, value in added[option].items()}
        schema = {**schema, "properties": {**schema["properties"], **more}}
    return Definition(name=name, description="\n\n".join(texts), input_schema=schema, limits=data["limits"])


def _text(file: str) -> str:
    with open(os.path.join(folder(), file), encoding="utf-8") as opened:
        return opened.read()
