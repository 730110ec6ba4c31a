"""Hints in the form that pydantic reads as one expects.

`typing.TypedDict` on Python 3.11, where pydantic reads only the one of `typing_extensions`; and whatever
can be iterated as a list: pydantic checks an `Iterable` only while the function goes through it.
"""

from __future__ import annotations

import collections.abc
import sys
import types
import typing
from typing import Any

import typing_extensions

_AT_HOME = sys.version_info >= (3, 12)
_MARKS = (typing.Required, typing.NotRequired, typing_extensions.Required, typing_extensions.NotRequired)


_LISTS = (
    collections.abc.Iterable,
    collections.abc.Iterator,
    collections.abc.Collection,
    collections.abc.Container,
    collections.abc.Reversible,
)


def readable(hint: Any) -> Any:
    """`hint` with every `TypedDict` and `Iterable` in it, at any depth, in the form that pydantic takes.

    A `TypedDict` that holds itself, and what stands in the field of a class, stays as it is.
    """
    return _converted(hint, ())


def _converted(hint: Any, inside: tuple[Any, ...]) -> Any:
    if typing.is_typeddict(hint):
        return hint if hint in inside or not _is_old(hint) else _copy(hint, (*inside, hint))
    old = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if hint in _LISTS or origin in _LISTS:
        return list[_converted(old[0], inside)] if old else list
    if not old or origin is typing.Literal:
        return hint
    if origin is typing.Annotated:
        return typing.Annotated[(_converted(old[0], inside), *old[1:])]
    new = tuple([_converted(arg, inside) for arg in old])
    if all(a is b for a, b in zip(old, new, strict=True)):
        return hint
    if origin is types.UnionType:
        return typing.Union[new]  # noqa: UP007
    if isinstance(hint, types.GenericAlias):
        return types.GenericAlias(typing.cast("type", origin), new)
    return hint.copy_with(new)


def _is_old(kind: Any) -> bool:
    return not _AT_HOME and type(kind).__module__ == "typing"


def _copy(kind: Any, inside: tuple[Any, ...]) -> Any:
    fields: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        hint = _converted(hint, inside)
        if typing.get_origin(hint) not in _MARKS and name in kind.__optional_keys__:
            hint = typing_extensions.NotRequired[hint]
        fields[name] = hint
    make: Any = typing_extensions.TypedDict
    copy = make(kind.__name__, fields)
    copy.__doc__, copy.__module__, copy.__qualname__ = kind.__doc__, kind.__module__, kind.__qualname__
    if (config := getattr(kind, "__pydantic_config__", None)) is not None:
        copy.__pydantic_config__ = config
    return copy
