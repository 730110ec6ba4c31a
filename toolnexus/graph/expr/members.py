"""Parts of values (`a.b`, `a?.b`, `a[i]`, `a[i:j]`), calls, literals of lists and maps, conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolnexus.graph.expr.errors import ExprEvalError
from toolnexus.graph.expr.methods import BY_NATURE, Bound
from toolnexus.graph.expr.natures import (
    ANY,
    ARRAY,
    BOOL,
    INT,
    MAP,
    NIL,
    STRING,
    UNKNOWN,
    ZONE,
    Function,
    Nature,
    Overload,
    array_of,
    assignable,
    unknown,
)
from toolnexus.graph.expr.nodes import Node, Refused, Run, over
from toolnexus.graph.expr.operators import shown
from toolnexus.graph.expr.values import Frame, cut, fetch, kind_of, spend, truth, type_name, weigh

GONE: Any = object()
"""What the rest of a chain sees after `?.` on nil."""


def chained(node: Node) -> Node:
    """The end of an optional chain, which is nil where the chain broke off."""
    raw = node.run

    def run(frame: Frame) -> Any:
        value = raw(frame)
        return None if value is GONE else value

    return Node(run, node.nature, node.depth, "chain", raw)


def _member_nature(base: Node, key: Node) -> Nature:
    nature = base.nature
    if unknown(nature) or base.form == "env":
        return UNKNOWN
    name = key.value if key.form == "literal" and key.nature is STRING else None
    if name is not None and nature in BY_NATURE:
        method = BY_NATURE[nature].get(name)
        if method is None:
            raise Refused(f"{shown(nature)} has no {name!r}")
        overload = Overload(method.parameters, method.result)
        return Nature("func", "function", function=Function(name, (overload,)))
    if nature.kind == "map":
        wanted = STRING if nature.name == "map" else ANY
        if not unknown(key.nature) and not assignable(key.nature, wanted):
            raise Refused(f"{shown(key.nature)} cannot be a key of {shown(nature)}")
        return nature.elem or UNKNOWN
    if nature.kind == "array":
        if key.nature is not INT and not unknown(key.nature):
            raise Refused(f"an item of an array is chosen by an integer, not by {shown(key.nature)}")
        return nature.elem or UNKNOWN
    raise Refused(f"{shown(nature)} has no {repr(name) if name is not None else 'items'}")


def member(base: Node, key: Node, *, optional: bool, raw: Run | None = None) -> Node:
    """`base.key` or `base[key]`. `raw` continues a chain: it may give GONE."""
    nature = _member_nature(base, key)
    depth = over(base, key)
    if optional or raw is not None:
        return Node(_optional(raw or base.run, key.run, optional), nature, depth)
    of = base.run
    if key.form == "literal":
        value = key.value

        def run(frame: Frame) -> Any:
            found = of(frame)
            return (
                found.get(value) if kind_of(found) is dict and kind_of(value) is str else fetch(found, value)
            )

        return Node(run, nature, depth)
    at = key.run
    return Node(lambda frame: fetch(of(frame), at(frame)), nature, depth)


def _optional(of: Run, at: Run, optional: bool) -> Run:
    def run(frame: Frame) -> Any:
        found = of(frame)
        if found is GONE or (optional and found is None):
            return GONE
        return fetch(found, at(frame))

    return run


def sliced(base: Node, start: Node | None, stop: Node | None) -> Node:
    """`base[start:stop]`."""
    nature = base.nature
    if not unknown(nature):
        if nature is not STRING and nature.kind != "array":
            raise Refused(f"{shown(nature)} cannot be sliced")
        for bound in (start, stop):
            if bound is not None and bound.nature is not INT and not unknown(bound.nature):
                raise Refused(f"a slice is cut at integers, not at {shown(bound.nature)}")
    of = base.run
    first = start.run if start else _zero
    last = stop.run if stop else _none

    def run(frame: Frame) -> Any:
        found = of(frame)
        part = cut(found, first(frame), _whole(last(frame), stop))
        spend(frame, len(part) >> 6)
        return part

    return Node(run, nature, over(*(node for node in (base, start, stop) if node)))


def _zero(frame: Frame) -> int:
    return 0


def _none(frame: Frame) -> None:
    return None


def _whole(value: Any, stop: Node | None) -> Any:
    if stop is not None and value is None:
        raise ExprEvalError("a slice needs a number, got nil")
    return value


def check_arguments(function: Function, arguments: Sequence[Node]) -> Nature:
    """The nature of the result of a call. Raises `Refused`."""
    natures = [argument.nature for argument in arguments]
    if function.rule is not None:
        try:
            return function.rule(natures)
        except TypeError as error:
            raise Refused(f"{function.name}: {error}") from None
    problem = "cannot be called here"
    for overload in function.overloads:
        problem = _misfit(overload, natures)
        if not problem:
            return overload.result
    raise Refused(f"{function.name}: {problem}")


def _misfit(overload: Overload, natures: Sequence[Nature]) -> str:
    wanted = len(overload.parameters)
    if len(natures) != wanted:
        return f"takes {wanted} argument{'s' * (wanted != 1)}, got {len(natures)}"
    for nature, parameter in zip(natures, overload.parameters, strict=True):
        fits = parameter in (ANY, ZONE) if nature is NIL else assignable(nature, parameter)
        if not fits and not unknown(nature):
            return f"{shown(nature)} is given where {shown(parameter)} is needed"
    return ""


def call(callee: Node, arguments: Sequence[Node]) -> Node:
    """`callee(arguments)`: only methods of times and durations can be called."""
    nature = callee.nature
    if unknown(nature):
        result = UNKNOWN
    elif nature is NIL:
        raise Refused("nil cannot be called")
    elif nature.function is not None:
        result = check_arguments(nature.function, arguments)
    else:
        raise Refused(f"{shown(nature)} cannot be called")
    runs = tuple(argument.run for argument in arguments)
    of = callee.run

    def run(frame: Frame) -> Any:
        found = of(frame)
        if found is GONE:
            return GONE
        values = [argument(frame) for argument in runs]
        if kind_of(found) is not Bound:
            raise ExprEvalError(f"{type_name(found)} cannot be called")
        try:
            return found(*values)
        except TypeError as error:
            raise ExprEvalError(str(error)) from None

    return Node(run, result, over(callee, *arguments))


def call_builtin(check: Function, function: Callable[..., Any], arguments: Sequence[Node]) -> Node:
    """A call of a built-in function, which gets the frame and the values of its arguments."""
    nature = check_arguments(check, arguments)
    if len(arguments) == 1:
        only = arguments[0].run
        return Node(lambda frame: function(frame, weigh(frame, only(frame))), nature, over(*arguments))
    runs = tuple(argument.run for argument in arguments)

    def run(frame: Frame) -> Any:
        return function(frame, *[weigh(frame, argument(frame)) for argument in runs])

    return Node(run, nature, over(*arguments))


def array(items: Sequence[Node]) -> Node:
    """`[a, b]`."""
    kinds = {"unknown" if item.nature is NIL else item.nature.kind for item in items}
    if len(kinds) > 1:
        nature = ARRAY
    else:
        nature = array_of(items[-1].nature if items else UNKNOWN)
    if items and all(item.form == "literal" and item.nature is not NIL for item in items):
        values = [item.value for item in items]
        return Node(lambda frame: values, nature, 1, "constants", values)
    runs = tuple(item.run for item in items)
    return Node(lambda frame: [run(frame) for run in runs], nature, over(*items), "list", items)


def mapping(pairs: Sequence[tuple[Node, Node]]) -> Node:
    """`{a: 1, "b": 2, (c): 3}`; of equal keys the first counts."""
    runs = tuple((key.run, value.run) for key, value in pairs)

    def run(frame: Frame) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_of, value_of in runs:
            key, value = key_of(frame), value_of(frame)
            if kind_of(key) is not str:
                raise ExprEvalError(f"the keys of a map are strings, got {type_name(key)}")
            found.setdefault(key, value)
        return found

    return Node(run, MAP, over(*(node for pair in pairs for node in pair)))


def conditional(test: Node, yes: Node, no: Node) -> Node:
    """`test ? yes : no` and `if test {yes} else {no}`."""
    if test.nature is not BOOL and not unknown(test.nature):
        raise Refused(f"the condition before ? or {{ is {shown(test.nature)}, not bool")
    a, b = yes.nature, no.nature
    if a is NIL or b is NIL:
        nature = b if a is NIL else a
    elif assignable(a, b):
        nature = ARRAY if a.kind == "array" and a.elem is not b.elem else a
    else:
        nature = UNKNOWN
    when, then, otherwise = test.run, yes.run, no.run
    return Node(
        lambda frame: then(frame) if truth(when(frame)) else otherwise(frame), nature, over(test, yes, no)
    )
