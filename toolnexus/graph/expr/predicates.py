"""The built-in functions with a predicate: `filter(xs, # > 1)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from toolnexus.graph.expr.errors import ExprEvalError
from toolnexus.graph.expr.functions.arrays import ordered
from toolnexus.graph.expr.natures import (
    ARRAY,
    BOOL,
    GROUPS,
    INT,
    NIL,
    STRING,
    UNKNOWN,
    Nature,
    array_of,
    unknown,
)
from toolnexus.graph.expr.nodes import Node, Refused, Run, over
from toolnexus.graph.expr.operators import shown
from toolnexus.graph.expr.values import AnyMap, Frame, add, loop, map_key, truth


class Slots(NamedTuple):
    """Where in the frame a loop keeps its item, its index and what it gathers."""

    item: int
    place: int
    total: int


class Loop(NamedTuple):
    """One call. Where no predicate stands, `test` gives the item itself."""

    items: Run
    test: Run
    last: Run | None
    slots: Slots


class Predicate(NamedTuple):
    """How a function with a predicate is written and run.

    `result`: natures of the items and of the predicate → of the call. `boolean`: the predicate gives a bool.
    `bare`: it may be left out. `third`: another argument may follow. `names`: the pointers besides `#`.
    """

    start: Callable[[Loop], Run]
    result: Callable[[Nature, Nature], Nature]
    boolean: bool = True
    bare: bool = False
    third: bool = False
    names: tuple[str, ...] = ()


def _all(it: Loop) -> Run:
    items, test, item = it.items, it.test, it.slots.item

    def run(frame: Frame) -> bool:
        for x in loop(frame, items(frame)):
            frame[item] = x
            if not truth(test(frame)):
                return False
        return True

    return run


def _any(it: Loop) -> Run:
    items, test, item = it.items, it.test, it.slots.item

    def run(frame: Frame) -> bool:
        for x in loop(frame, items(frame)):
            frame[item] = x
            if truth(test(frame)):
                return True
        return False

    return run


def _none(it: Loop) -> Run:
    some = _any(it)
    return lambda frame: not some(frame)


def _filter(it: Loop) -> Run:
    items, test, item = it.items, it.test, it.slots.item

    def run(frame: Frame) -> list[Any]:
        found: list[Any] = []
        for x in loop(frame, items(frame)):
            frame[item] = x
            if truth(test(frame)):
                found.append(x)
        return found

    return run


def _counting(it: Loop) -> Callable[[Frame], int]:
    items, test, item = it.items, it.test, it.slots.item

    def run(frame: Frame) -> int:
        found = 0
        for x in loop(frame, items(frame)):
            frame[item] = x
            found += truth(test(frame))
        return found

    return run


def _one(it: Loop) -> Run:
    count = _counting(it)
    return lambda frame: count(frame) == 1


def _map(it: Loop) -> Run:
    items, change, item, index = it.items, it.test, it.slots.item, it.slots.place

    def run(frame: Frame) -> list[Any]:
        found: list[Any] = []
        for at, x in enumerate(loop(frame, items(frame))):
            frame[index], frame[item] = at, x
            found.append(change(frame))
        return found

    return run


def _search(*, backwards: bool, place: bool) -> Callable[[Loop], Run]:
    def start(it: Loop) -> Run:
        items, test, item = it.items, it.test, it.slots.item

        def run(frame: Frame) -> Any:
            found = loop(frame, items(frame))
            for at in range(len(found))[:: -1 if backwards else 1]:
                frame[item] = found[at]
                if truth(test(frame)):
                    return at if place else found[at]
            return None

        return run

    return start


def _sum(it: Loop) -> Run:
    items, change, item = it.items, it.test, it.slots.item

    def run(frame: Frame) -> Any:
        total: Any = 0
        for x in loop(frame, items(frame)):
            frame[item] = x
            total = add(frame, change(frame), total)
        return total

    return run


def _group(it: Loop) -> Run:
    items, key, item = it.items, it.test, it.slots.item

    def run(frame: Frame) -> AnyMap:
        found = AnyMap()
        for x in loop(frame, items(frame)):
            frame[item] = x
            found.setdefault(map_key(key(frame)), []).append(x)
        return found

    return run


def _sort(it: Loop) -> Run:
    items, key, order, item = it.items, it.test, it.last, it.slots.item

    def run(frame: Frame) -> list[Any]:
        found = loop(frame, items(frame))
        wanted = order(frame) if order else "asc"
        keys: list[Any] = []
        for x in found:
            frame[item] = x
            keys.append(key(frame))
        return ordered(frame, found, keys, wanted)

    return run


def _reduce(it: Loop) -> Run:
    items, change, first, slots = it.items, it.test, it.last, it.slots

    def run(frame: Frame) -> Any:
        found = loop(frame, items(frame))
        start = 0
        if first is not None:
            total = first(frame)
        elif found:
            total, start = found[0], 1
        else:
            raise ExprEvalError("reduce of an empty array needs a first value: reduce(xs, …, 0)")
        for at in range(start, len(found)):
            frame[slots.total], frame[slots.place], frame[slots.item] = total, at, found[at]
            total = change(frame)
        return total

    return run


def _mapped(items: Nature, test: Nature) -> Nature:
    return array_of(test)


def _tested(items: Nature, test: Nature) -> Nature:
    return test


def _kept(items: Nature, test: Nature) -> Nature:
    return items


def _is(nature: Nature) -> Callable[[Nature, Nature], Nature]:
    return lambda items, test: nature


def _element(items: Nature, test: Nature) -> Nature:
    return UNKNOWN if unknown(items) else items.elem or UNKNOWN


def _filtered(items: Nature, test: Nature) -> Nature:
    return ARRAY if unknown(items) else array_of(items.elem or UNKNOWN)


PREDICATES: dict[str, Predicate] = {
    "all": Predicate(_all, _is(BOOL)),
    "none": Predicate(_none, _is(BOOL)),
    "any": Predicate(_any, _is(BOOL)),
    "one": Predicate(_one, _is(BOOL)),
    "filter": Predicate(_filter, _filtered),
    "map": Predicate(_map, _mapped, boolean=False, names=("index",)),
    "count": Predicate(_counting, _is(INT), bare=True),
    "sum": Predicate(_sum, _tested, boolean=False, bare=True),
    "find": Predicate(_search(backwards=False, place=False), _element),
    "findIndex": Predicate(_search(backwards=False, place=True), _is(INT)),
    "findLast": Predicate(_search(backwards=True, place=False), _element),
    "findLastIndex": Predicate(_search(backwards=True, place=True), _is(INT)),
    "groupBy": Predicate(_group, _is(GROUPS), boolean=False),
    "sortBy": Predicate(_sort, _kept, boolean=False, third=True),
    "reduce": Predicate(_reduce, _tested, boolean=False, third=True, names=("index", "acc")),
}


def items_of(name: str, items: Node) -> Node:
    """`items`, which must not be known to be anything but an array."""
    if not unknown(items.nature) and items.nature.kind != "array":
        raise Refused(f"{name} takes an array, not {shown(items.nature)}")
    return items


def apply(name: str, items: Node, test: Node | None, last: Node | None, slots: Slots) -> Node:
    """The call of the function `name`. Raises `Refused`."""
    kind = PREDICATES[name]
    _check_test(name, kind, test, last)
    nature = kind.result(items.nature, _element(items.nature, UNKNOWN) if test is None else test.nature)
    if name == "sum" and test is None and items.form == "list" and len(items.value) > 1:
        return _written_sum(items, nature)
    run: Run = test.run if test is not None else lambda frame: frame[slots.item]
    nodes = [node for node in (items, test, last) if node is not None]
    return Node(kind.start(Loop(items.run, run, last and last.run, slots)), nature, over(*nodes))


def _check_test(name: str, kind: Predicate, test: Node | None, last: Node | None) -> None:
    if test is not None and test.nature is NIL:
        raise Refused(f"the predicate of {name} gives nothing")
    if test is not None and kind.boolean and test.nature is not BOOL and not unknown(test.nature):
        raise Refused(f"the predicate of {name} gives {shown(test.nature)}, not a bool")
    if name == "sortBy" and last is not None and last.nature is not STRING and not unknown(last.nature):
        raise Refused(f"the order of sortBy is a string, not {shown(last.nature)}")


def _written_sum(items: Node, nature: Nature) -> Node:
    """`sum([a, b])` with the items written out: expr-lang adds them with `+` from the right, texts too."""
    *rest, last = [item.run for item in items.value]

    def run(frame: Frame) -> Any:
        values = [item(frame) for item in rest]
        total = last(frame)
        for value in reversed(values):
            total = add(frame, value, total)
        return total

    return Node(run, nature, over(items))
