"""What a module of the user holds, by `MODULE:NAME`."""

from __future__ import annotations

import sys
from functools import reduce
from importlib import import_module
from typing import Any, TypeVar

from toolnexus.cli.exits import UsageError
from toolnexus.core.names import did_you_mean

T = TypeVar("T")


def named(target: str, kind: type[T], what: str, example: str) -> T:
    """The `kind` that `target` names, imported from this folder or wherever Python finds it.

    `what` is the word for it. Raises `UsageError` that says what there is.
    """
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise UsageError(f"{target!r} must look like {example}")
    if "" not in sys.path and "." not in sys.path:  # as with `python -m`: what lies here can be named
        sys.path.insert(0, "")
    try:
        found: Any = import_module(module)
    except Exception as error:
        raise UsageError(f"cannot import {module!r}: {type(error).__name__}: {error}") from error
    try:
        value: Any = reduce(getattr, name.split("."), found)
    except AttributeError:
        there = [key for key in dir(found) if _is(getattr(found, key, None), kind)]
        near = did_you_mean(name, there)
        raise UsageError(f"{module!r} has no {name!r}; its {what}s: {there}{near}") from None
    if not _is(value, kind):
        raise UsageError(f"{target!r} is {type(value).__name__}, no {what}")
    return value


def _is(value: Any, kind: type[Any]) -> bool:
    return isinstance(value, kind) and not isinstance(value, type)
