"""Checks of what users hand in as options: the wrong type is told where it is written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

from toolnexus.core.names import did_you_mean
from toolnexus.errors import ConfigError

_LONGEST = 80


def wrong(option: str, value: object, allowed: str) -> ConfigError:
    """The error for `value`: what came, and what is allowed."""
    shown = repr(value)
    if len(shown) > _LONGEST:
        shown = f"{shown[:_LONGEST]}…"
    return ConfigError(f"{option}={shown} ({type(value).__name__}): {allowed}")


def expect(option: str, value: object, kinds: type | tuple[type, ...], allowed: str) -> None:
    """Raises `ConfigError` unless `value` is an object (never a class) of one of `kinds`."""
    if isinstance(value, type) or not isinstance(value, kinds):
        raise wrong(option, value, allowed)


def expect_callable(option: str, value: object, allowed: str) -> None:
    """Raises `ConfigError` unless `value` is None or a function, or an object that is called like one."""
    if value is not None and (isinstance(value, type) or not callable(value)):
        raise wrong(option, value, allowed)


def count(option: str, value: object, least: int, otherwise: str = "") -> None:
    """Raises `ConfigError` unless `value` is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(option, value, f"give a whole number{otherwise}")
    if value < least:
        raise ConfigError(f"{option}={value!r} must be {least} or more{otherwise}")


def number(option: str, value: object, of: str) -> None:
    """Raises `ConfigError` unless `value` is a finite number `of` something, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise wrong(option, value, f"give a number of {of}")
    if value < 0:
        raise ConfigError(f"{option}={value!r} must be 0 or more: a number of {of}")


def seconds(option: str, value: object, otherwise: str = "") -> None:
    """Raises `ConfigError` unless `value` is a finite number of seconds, 0 or more."""
    number(option, value, f"seconds{otherwise}")


def unknown_key(where: str, key: object, allowed: Iterable[str]) -> ConfigError:
    """The error for a key that is none: the nearest that is one, and all that are allowed."""
    names = list(allowed)
    return ConfigError(f"{where}: unknown key {key!r}{instead(did_you_mean(str(key), names), names)}")


def instead(near: str, allowed: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: what was `near` it, and all that are allowed."""
    return f"{near}{' Allowed' if near else '; allowed'}: {', '.join(allowed)}"


def install(extra: str) -> str:
    """What to do when the packages of an extra are not installed: the end of a sentence."""
    return f"install the extra {extra!r} of toolnexus: pip install '.[{extra}]' in its clone"


def items(option: str, value: object, allowed: str) -> tuple[Any, ...]:
    """What a list option holds. Raises `ConfigError` for a single thing, a text and a mapping."""
    if isinstance(value, (str, bytes, Mapping, type)) or not isinstance(value, Iterable):
        raise wrong(option, cast("object", value), allowed)
    return tuple(cast("Iterable[Any]", value))
