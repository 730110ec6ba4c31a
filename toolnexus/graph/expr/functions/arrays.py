"""Functions of arrays and maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolnexus.graph.expr.errors import ExprEvalError
from toolnexus.graph.expr.functions.base import (
    builtin,
    count,
    needs_array,
    needs_integer,
    needs_map,
    needs_text,
    numeric,
    one,
    takes,
)
from toolnexus.graph.expr.methods import method_of
from toolnexus.graph.expr.natures import (
    ANY,
    ANY_MAP,
    ARRAY,
    FLOAT,
    INT,
    STRING,
    STRINGS,
    UNKNOWN,
    Nature,
    assignable,
    unknown,
)
from toolnexus.graph.expr.values import (
    AnyMap,
    Frame,
    Pairs,
    as_float,
    as_int,
    equal,
    fetch,
    is_list,
    is_map,
    is_row,
    kind_of,
    less,
    map_key,
    spend,
    visit,
)

_SCALARS = (str, bool, int, float, type(None))


def _item(given: Sequence[Nature]) -> Nature:
    count(given, 1)
    if not unknown(given[0]) and given[0].kind != "array":
        raise TypeError(f"cannot take {given[0].name}")
    return STRING if given[0] is STRINGS else ANY


def _several(given: Sequence[Nature]) -> Nature:
    if not given:
        raise TypeError("takes at least 1 argument, got 0")
    for nature in given:
        if not unknown(nature) and nature.kind != "array":
            raise TypeError(f"cannot take {nature.name}")
    return ARRAY


def _part(given: Sequence[Nature]) -> Nature:
    count(given, 2)
    items, number = given
    if not unknown(items) and items.kind != "array":
        raise TypeError(f"cannot take from {items.name}")
    if not unknown(number) and (number is FLOAT or not numeric(number)):
        raise TypeError(f"cannot take {number.name} items")
    if unknown(items):
        return ANY
    return items if items is STRINGS else ARRAY


def _found(given: Sequence[Nature]) -> Nature:
    count(given, 2)
    base, key = given
    if unknown(base):
        return UNKNOWN
    if base.kind == "array":
        if key is not INT and not unknown(key):
            raise TypeError(f"an item of an array is chosen by an integer, not by {key.name}")
    elif base.kind == "map":
        if not unknown(key) and not assignable(key, STRING if base.name == "map" else ANY):
            raise TypeError(f"{key.name} cannot be a key of {base.name}")
    else:
        raise TypeError(f"{base.name} has no items")
    return base.elem or UNKNOWN


def _end(index: int) -> Callable[..., Any]:
    def run(frame: Frame, value: Any) -> Any:
        try:
            return fetch(value, index)
        except ExprEvalError:
            return None

    return run


def _get(frame: Frame, base: Any, key: Any) -> Any:
    if is_row(base):
        items = base.encode("utf-8", "surrogatepass") if kind_of(base) is str else base
        index = as_int(key, "get")
        return items[index] if -len(items) <= index < len(items) else None
    if is_map(base):
        return fetch(base, key)
    return method_of(base, key) if kind_of(key) is str else None


def _take(frame: Frame, value: Any, number: Any) -> list[Any]:
    items, most = needs_array(value, "take"), needs_integer(number, "take")
    if most < 0:
        raise ExprEvalError(f"take needs a number of items, got {most}")
    spend(frame, min(most, len(items)) >> 3)
    return items[:most]


def _key(key: Any) -> Any:
    return key if isinstance(key, str) else key[1]


def _keys(frame: Frame, value: Any) -> list[Any]:
    return [_key(key) for key in needs_map(value, "keys")]


def _values(frame: Frame, value: Any) -> list[Any]:
    return list(needs_map(value, "values").values())


def _to_pairs(frame: Frame, value: Any) -> list[Any]:
    return Pairs(Pairs((_key(key), item)) for key, item in needs_map(value, "toPairs").items())


def _from_pairs(frame: Frame, value: Any) -> AnyMap:
    found = AnyMap()
    for item in needs_array(value, "fromPairs"):
        pair = needs_array(item, "a pair of fromPairs")
        if len(pair) != 2:
            raise ExprEvalError("fromPairs needs pairs like [key, value]")
        found[map_key(pair[0])] = pair[1]
    return found


def _uniq(frame: Frame, value: Any) -> list[Any]:
    found: list[Any] = []
    seen: set[Any] = set()
    others: list[Any] = []
    visit(frame, needs_array(value, "uniq"))
    for item in value:
        if kind_of(item) in _SCALARS:
            mark = (kind_of(item) is bool, item)  # True is 1 for a set
            if mark in seen:
                continue
            seen.add(mark)
        elif any(equal(frame, item, other) for other in others):
            continue
        else:
            spend(frame, len(others))
            others.append(item)
        found.append(item)
    return found


def _concat(frame: Frame, *arguments: Any) -> list[Any]:
    found: list[Any] = []
    for argument in arguments:
        items = needs_array(argument, "concat")
        spend(frame, len(items) >> 3)
        found += items
    return found


def _flatten(frame: Frame, value: Any) -> list[Any]:
    found: list[Any] = []
    visit(frame, needs_array(value, "flatten"))
    for item in value:
        if is_list(item):
            found += _flatten(frame, item)
        else:
            found.append(item)
    return found


def _reverse(frame: Frame, value: Any) -> list[Any]:
    items = needs_array(value, "reverse")
    spend(frame, len(items) >> 3)
    return items[::-1]


def ordered(frame: Frame, items: list[Any], keys: list[Any], order: Any) -> list[Any]:
    """`items` by `keys`, equal ones in their old order. Raises `ExprEvalError` for keys of several types."""
    if needs_text(order, "an order") not in ("asc", "desc"):
        raise ExprEvalError(f"the order is asc or desc, not {order[:80]!r}")
    spend(frame, len(items))
    if len(items) > 1:
        for key in keys:
            less("<", keys[0], key)
    if {type(key) for key in keys} == {int, float}:
        keys = [as_float(key) for key in keys]
    places = sorted(range(len(items)), key=keys.__getitem__, reverse=order == "desc")
    return [items[place] for place in places]


def _sort(frame: Frame, value: Any, order: Any = "asc") -> list[Any]:
    items = value if is_list(value) else list[Any]()
    return ordered(frame, items, items, order)


_SORT = tuple(takes(kind, *order, gives=ARRAY) for kind in (ARRAY, STRINGS) for order in ((STRING,), ()))

FUNCTIONS = dict(
    (
        builtin("first", _end(0), rule=_item),
        builtin("last", _end(-1), rule=_item),
        builtin("get", _get, rule=_found),
        builtin("take", _take, rule=_part),
        builtin("keys", _keys, rule=one(ARRAY, "map")),
        builtin("values", _values, rule=one(ARRAY, "map")),
        builtin("toPairs", _to_pairs, rule=one(ARRAY, "map")),
        builtin("fromPairs", _from_pairs, rule=one(ANY_MAP, "array")),
        builtin("reverse", _reverse, rule=one(ARRAY, "array")),
        builtin("uniq", _uniq, rule=one(ARRAY, "array")),
        builtin("concat", _concat, rule=_several),
        builtin("flatten", _flatten, rule=one(ARRAY, "array")),
        builtin("sort", _sort, *_SORT),
    )
)
