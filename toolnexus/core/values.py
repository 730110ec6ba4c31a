"""How classes of values are defined: as data classes that compile their `__init__` when the first is made.

`dataclass` compiles up to six functions for every class, half a millisecond each time. With a hundred
classes that would be half of what importing the package takes, and a program makes instances of few of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

T = TypeVar("T")

if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def value(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...

    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def frozen(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...

    @dataclass_transform(field_specifiers=(field,))
    def mutable(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...

else:

    def value(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
        """A data class with slots that nobody changes: compared and hashed by its fields, typed as frozen.

        Not at run time: guarding every field would make a value three times as dear to make, and a
        tenth of the cost of a run would go into it.
        """
        return lambda cls: _define(cls, kw_only)

    def frozen(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
        """The same, and frozen at run time: for what is made once and kept."""
        return lambda cls: _guard(_define(cls, kw_only, "__put(self, {0!r}, {1})"))

    def mutable(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
        """A data class with slots that is compared by its fields, and has no hash, because it changes."""
        return lambda cls: _define(cls, kw_only, hashed=False)


class _Fresh:
    """Stands for the default of a field with a factory."""

    def __repr__(self) -> str:
        return "<factory>"


_FRESH = _Fresh()


class _Init:
    """The `__init__` of a data class, compiled when somebody first asks for it."""

    def __init__(self, cls: Any, assign: str) -> None:
        self._cls = cls
        self._assign = assign

    def __get__(self, instance: object, owner: type) -> Any:
        init = self._cls.__init__ = _compile(self._cls, self._assign)
        return init.__get__(instance, owner)


def _compile(cls: Any, assign: str) -> Any:
    kept: list[Field[Any]] = [f for f in fields(cls) if f.init or _has_default(f)]
    given: list[Field[Any]] = sorted([f for f in kept if f.init], key=lambda f: f.kw_only is True)
    parameters = ["self", *map(_parameter, given)]
    if named := [f for f in given if f.kw_only]:
        parameters.insert(-len(named), "*")
    lines = [assign.format(f.name, _initial(f)) for f in kept]
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    scope: dict[str, Any] = {"__fresh": _FRESH, "__put": object.__setattr__}
    for f in kept:
        factory: Any = f.default_factory
        # what `dict[str, Any]()` makes is a plain dict, ten times as slowly
        scope |= {
            f"__default_{f.name}": f.default,
            f"__make_{f.name}": getattr(factory, "__origin__", factory),
        }
    body = "\n  ".join(lines or ["pass"])
    source = (
        f"def make({', '.join(scope)}):\n def __init__({', '.join(parameters)}):\n  {body}\n return __init__"
    )
    found: dict[str, Any] = {}
    exec(source, vars(sys.modules[cls.__module__]), found)
    init = found["make"](**scope)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {**{f.name: f.type for f in given}, "return": None}
    return init


def _parameter(f: Field[Any]) -> str:
    if f.default_factory is not MISSING:
        return f"{f.name}=__fresh"
    return f"{f.name}=__default_{f.name}" if f.default is not MISSING else f.name


def _initial(f: Field[Any]) -> str:
    if f.default_factory is MISSING:
        return f.name if f.init else f"__default_{f.name}"
    return f"__make_{f.name}() if {f.name} is __fresh else {f.name}" if f.init else f"__make_{f.name}()"


def _has_default(f: Field[Any]) -> bool:
    return f.default is not MISSING or f.default_factory is not MISSING


def _define(cls: Any, kw_only: bool, assign: str = "self.{0} = {1}", hashed: bool = True) -> Any:
    own = dict(cls.__dict__)
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
    key = attrgetter("__class__", *[f.name for f in fields(made) if f.compare])

    def __eq__(self: object, other: object) -> bool:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: object) -> int:
        return hash(key(self))

    made.__init__ = _Init(made, assign)
    if "__repr__" not in own:
        made.__repr__ = _repr
    if "__eq__" not in own:
        made.__eq__ = __eq__
    if own.get("__hash__") is None:
        made.__hash__ = __hash__ if hashed else None
    return made


@recursive_repr()
def _repr(self: Any) -> str:
    said = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr]
    return f"{self.__class__.__qualname__}({', '.join(said)})"


def _guard(cls: Any) -> Any:
    cls.__setattr__, cls.__delattr__ = _no_assignment, _no_deletion
    cls.__getstate__, cls.__setstate__ = _state, _restore
    return cls


def _no_assignment(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _no_deletion(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for f, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
