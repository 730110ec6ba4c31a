"""A mutant put into a process that has loaded the package: nothing is imported again."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

from tests.mutation.mutants import Mutant

Place = tuple[str, str, int]
"""A function: its file, its qualified name, its first line."""
PLAIN = (int, float, str, bytes, bool, type(None), re.Pattern)


class CannotSwap(Exception):
    """What the mutant changes cannot be seen in a loaded process."""


def functions(root: Path) -> dict[Place, list[FunctionType]]:
    """All functions of the package that are alive, also those behind decorators."""
    gc.unfreeze()
    found: dict[Place, list[FunctionType]] = {}
    for value in gc.get_objects():
        if isinstance(value, FunctionType):
            code = value.__code__
            if code.co_filename.startswith(str(root / "toolnexus")):
                found.setdefault(_place(code), []).append(value)
    gc.freeze()
    return found


def put(mutant: Mutant, root: Path, alive: dict[Place, list[FunctionType]]) -> None:
    """Make this process run `mutant`. Raises `CannotSwap`, and what loading a mutated module raises."""
    mutant.apply()
    file = str(root / mutant.file)
    loaded = compile(mutant.tree, file, "exec", dont_inherit=True)
    if not mutant.function:
        _put_constants(mutant, loaded, alive)
        return
    inside = f"{mutant.function}.<locals>."
    done = 0
    for code in _codes(loaded):
        name = code.co_qualname
        if name == mutant.function or name.startswith(inside):  # what it has made before is changed, too
            for function in alive.get(_place(code), ()):
                if code.co_freevars != function.__code__.co_freevars:
                    raise CannotSwap(mutant.function)
                function.__code__ = code
                done += 1
    if not done:
        raise CannotSwap(mutant.function)


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _put_constants(mutant: Mutant, loaded: CodeType, alive: dict[Place, list[FunctionType]]) -> None:
    """Load the module a second time, and carry over the constants and defaults that differ."""
    name = mutant.file.removesuffix(".py").replace("/", ".")
    before = sys.modules[name]
    after = ModuleType(name)
    after.__dict__.update(__file__=before.__file__, __package__=before.__package__)
    sys.modules[name] = after  # data classes look their module up
    try:
        exec(loaded, after.__dict__)
    finally:
        sys.modules[name] = before
    changed = _carry(before, after)
    for key, old in list(vars(before).items()):
        new = vars(after).get(key)
        if _differ(old, new):
            for module in list(sys.modules.values()):
                if getattr(module, "__name__", "").startswith(("toolnexus", "tests")):
                    if vars(module).get(key) is old:
                        setattr(module, key, new)
            changed = True
    if not changed:
        raise CannotSwap(mutant.text)


def _carry(before: Any, after: Any) -> bool:
    """The defaults of functions and the constants of classes, in a module or class."""
    changed = False
    members: dict[str, Any] = {**vars(after)}
    for key, new in members.items():
        old: Any = vars(before).get(key)
        if isinstance(new, type) and isinstance(old, type) and new.__module__ == old.__module__:
            changed |= new is not old and _carry(old, new)
            continue
        old, new = getattr(old, "__func__", old), getattr(new, "__func__", new)
        if isinstance(new, FunctionType) and isinstance(old, FunctionType):
            for kept, given in zip(old.__closure__ or (), new.__closure__ or (), strict=True):
                kept.cell_contents = given.cell_contents  # of what a factory made when the module was loaded
                changed = True
            for field in ("__defaults__", "__kwdefaults__"):
                if _differ(getattr(old, field), getattr(new, field)):
                    setattr(old, field, getattr(new, field))
                    changed = True
        elif isinstance(before, type) and not key.startswith("__") and _differ(old, new):
            setattr(before, key, new)
            changed = True
    return changed


def _differ(old: Any, new: Any) -> bool:
    return _is_plain(old) and _is_plain(new) and repr(old) != repr(new)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list | frozenset | set):
        return all(map(_is_plain, cast("Collection[Any]", value)))
    if isinstance(value, dict):
        return all(_is_plain(each) for item in cast("dict[Any, Any]", value).items() for each in item)
    ours = type(value).__module__.startswith("toolnexus") and " object at 0x" not in repr(value)
    return isinstance(value, PLAIN) or ours
