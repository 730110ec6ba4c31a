"""Operators: what they refuse before the run, what they fold, how they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolnexus.graph.expr.errors import ExprEvalError
from toolnexus.graph.expr.natures import (
    ANY,
    BOOL,
    BYTES,
    DURATION,
    FLOAT,
    INT,
    NIL,
    NUMBERS,
    STRING,
    TIME,
    UNKNOWN,
    Nature,
    array_of,
    assignable,
    comparable,
    compatible,
    unknown,
)
from toolnexus.graph.expr.nodes import Node, Refused, Run, literal, over
from toolnexus.graph.expr.regex import matcher
from toolnexus.graph.expr.values import (
    Frame,
    add,
    at_most,
    contains,
    divide,
    equal,
    kind_of,
    less,
    mismatch,
    modulo,
    multiply,
    negate,
    power,
    span,
    spend,
    subtract,
    truth,
    type_name,
    weigh,
)

_ORDERED = (INT, FLOAT, STRING, TIME, DURATION)
_FOLDED = (int, float)


def shown(nature: Nature) -> str:
    """How an error names a nature."""
    if nature.kind == "func" and nature.function is not None:
        return (
            f"the built-in function {nature.function.name} (write $env.{nature.function.name} for a variable)"
        )
    return nature.name


def _refuse(operator: str, left: Node, right: Node) -> Refused:
    return Refused(f"{operator} cannot take {shown(left.nature)} and {shown(right.nature)}")


def unary(operator: str, node: Node) -> Node:
    """`!x`, `not x`, `-x`, `+x`."""
    nature, run = node.nature, node.run
    constant = node.form == "literal"
    if operator in ("!", "not"):
        if nature is not BOOL and not unknown(nature):
            raise Refused(f"{operator} cannot take {shown(nature)}")
        if constant:
            return literal(not node.value)
        return Node(lambda frame: not truth(run(frame)), BOOL, over(node))
    if nature not in NUMBERS and not unknown(nature):
        raise Refused(f"{operator} cannot take {shown(nature)}")
    if operator == "+":
        return Node(run, nature, over(node), node.form, node.value)
    if constant:
        return literal(negate(node.value))
    return Node(lambda frame: negate(run(frame)), nature, over(node))


def _truth_operator(operator: str, left: Node, right: Node) -> Node:
    if not (left.nature is BOOL and right.nature is BOOL) and not compatible(left.nature, right.nature, BOOL):
        raise _refuse(operator, left, right)
    both = operator in ("and", "&&")
    sides = [node for node in (left, right) if node.form == "literal"]
    if sides:  # `x and true` is x, `x and false` is false, without a look at x
        if left.form == "literal" and left.value is both:
            return Node(right.run, BOOL, right.depth, right.form, right.value)
        if right.form == "literal" and right.value is both:
            return Node(left.run, BOOL, left.depth, left.form, left.value)
        return literal(not both)
    form = "and" if both else "or"
    runs: tuple[Run, ...] = (*(left.value if left.form == form else (left.run,)), right.run)
    depth = max(left.depth if left.form == form else left.depth + 1, right.depth + 1)
    return Node(_all(runs) if both else _any(runs), BOOL, depth, form, runs)


def _all(runs: tuple[Run, ...]) -> Run:
    *heads, last = runs
    if len(heads) == 1:
        head = heads[0]
        return lambda frame: last(frame) if truth(head(frame)) else False

    def run(frame: Frame) -> Any:
        for head in heads:
            if not truth(head(frame)):
                return False
        return last(frame)

    return run


def _any(runs: tuple[Run, ...]) -> Run:
    *heads, last = runs
    if len(heads) == 1:
        head = heads[0]
        return lambda frame: True if truth(head(frame)) else last(frame)

    def run(frame: Frame) -> Any:
        for head in heads:
            if truth(head(frame)):
                return True
        return last(frame)

    return run


def _equality(operator: str, left: Node, right: Node) -> Node:
    if not comparable(left.nature, right.nature):
        raise _refuse(operator, left, right)
    kind = kind_of(right.value) if right.form == "literal" else None
    folds = left.form == "literal" and kind_of(left.value) is kind and kind in (int, str, bool)
    if operator == "==" and folds:
        return literal(left.value == right.value)
    run = _equal_run(left, right, kind)
    if operator == "!=":
        return Node(lambda frame: not run(frame), BOOL, over(left, right))
    return Node(run, BOOL, over(left, right))


def _equal_run(left: Node, right: Node, constant: Any) -> Run:
    a, b = left.run, right.run
    if left.nature is right.nature and left.nature in (INT, STRING):
        wanted = int if left.nature is INT else str

        def strict(frame: Frame) -> bool:
            x, y = a(frame), b(frame)
            if kind_of(x) is not wanted or kind_of(y) is not wanted:
                raise mismatch("==", x, y)
            return x == y

        return strict
    if constant in (bool, str, int):
        value = right.value

        def quick(frame: Frame) -> bool:
            x = a(frame)
            return x == value if kind_of(x) is constant else equal(frame, x, value)

        return quick
    return lambda frame: equal(frame, a(frame), b(frame))


def _ordering(operator: str, left: Node, right: Node) -> Node:
    x, y = left.nature, right.nature
    same = (x in NUMBERS and y in NUMBERS) or (x is y and x in (STRING, TIME, DURATION))
    if not same and not compatible(x, y, *_ORDERED):
        raise _refuse(operator, left, right)
    a, b = left.run, right.run
    compare = at_most if operator.endswith("=") else less
    if operator[0] == "<":
        return Node(lambda frame: compare(operator, a(frame), b(frame)), BOOL, over(left, right))

    def run(frame: Frame) -> bool:
        first, second = a(frame), b(frame)
        return compare(operator, second, first)

    return Node(run, BOOL, over(left, right))


def _fold(run: Callable[[Any, Any], Any], left: Node, right: Node, *kinds: type) -> Node | None:
    if left.form == right.form == "literal" and type(left.value) in kinds and type(right.value) in kinds:
        return literal(run(left.value, right.value))
    return None


def _promoted(x: Nature, y: Nature) -> Nature:
    return FLOAT if FLOAT in (x, y) else INT


def _plus(operator: str, left: Node, right: Node) -> Node:
    x, y = left.nature, right.nature
    if x in NUMBERS and y in NUMBERS:
        nature = _promoted(x, y)
    elif x is y and x in (STRING, DURATION):
        nature = x
    elif {x, y} == {TIME, DURATION}:
        nature = TIME
    elif compatible(x, y, *_ORDERED):
        nature = UNKNOWN
    else:
        raise _refuse(operator, left, right)
    if left.form == right.form == "literal" and type(left.value) is type(right.value) is str:
        return literal(left.value + right.value)
    a, b = left.run, right.run
    free: Frame = [None, 1]
    return _fold(lambda m, n: add(free, m, n), left, right, *_FOLDED) or Node(
        lambda frame: add(frame, a(frame), b(frame)), nature, over(left, right)
    )


def _minus(operator: str, left: Node, right: Node) -> Node:
    x, y = left.nature, right.nature
    if x in NUMBERS and y in NUMBERS:
        nature = _promoted(x, y)
    elif x is y and x in (TIME, DURATION):
        nature = DURATION
    elif x is TIME and y is DURATION:
        nature = TIME
    elif compatible(x, y, INT, FLOAT, TIME, DURATION):
        nature = UNKNOWN
    else:
        raise _refuse(operator, left, right)
    return _arithmetic(subtract, nature, left, right)


def _arithmetic(run: Callable[[Any, Any], Any], nature: Nature, left: Node, right: Node) -> Node:
    a, b = left.run, right.run
    return _fold(run, left, right, *_FOLDED) or Node(
        lambda frame: run(a(frame), b(frame)), nature, over(left, right)
    )


def _times(operator: str, left: Node, right: Node) -> Node:
    x, y = left.nature, right.nature
    if x in NUMBERS and y in NUMBERS:
        nature = _promoted(x, y)
    elif DURATION in (x, y) and all(n is DURATION or n in NUMBERS for n in (x, y)):
        nature = DURATION
    elif compatible(x, y, INT, FLOAT, DURATION):
        nature = UNKNOWN
    else:
        raise _refuse(operator, left, right)
    return _arithmetic(multiply, nature, left, right)


def _floating(operator: str, left: Node, right: Node) -> Node:
    x, y = left.nature, right.nature
    if not (x in NUMBERS and y in NUMBERS) and not compatible(x, y, INT, FLOAT):
        raise _refuse(operator, left, right)
    return _arithmetic(divide if operator == "/" else power, FLOAT, left, right)


def _modulo(operator: str, left: Node, right: Node) -> Node:
    if not left.nature is right.nature is INT and not compatible(left.nature, right.nature, INT):
        raise _refuse(operator, left, right)
    try:
        return _arithmetic(modulo, INT, left, right)
    except ExprEvalError as error:
        raise Refused(str(error)) from None


def _range(operator: str, left: Node, right: Node) -> Node:
    if not left.nature is right.nature is INT and not compatible(left.nature, right.nature, INT):
        raise _refuse(operator, left, right)
    a, b = left.run, right.run
    return Node(lambda frame: span(frame, a(frame), b(frame)), array_of(INT), over(left, right))


def _membership(operator: str, left: Node, right: Node) -> Node:
    x, y = left.nature, right.nature
    if y.kind == "map":
        key = STRING if y.name == "map" else ANY
        if not unknown(x) and not assignable(x, key):
            raise Refused(f"{shown(x)} cannot be a key of {shown(y)}")
    elif y.kind == "array":
        if not comparable(x, y.elem or UNKNOWN):
            raise Refused(f"{shown(x)} is never in an array of {shown(y.elem or UNKNOWN)}")
    elif not unknown(y) and not (unknown(x) and y is STRING):
        raise _refuse(operator, left, right)
    a, b = left.run, right.run
    if right.form == "constants" and all(kind_of(item) is str for item in right.value):
        return Node(_in_texts(a, frozenset(right.value)), BOOL, over(left, right))
    return Node(lambda frame: contains(frame, a(frame), b(frame)), BOOL, over(left, right))


def _in_texts(needle: Run, texts: frozenset[str]) -> Run:
    def run(frame: Frame) -> bool:
        value = needle(frame)
        if kind_of(value) is str:
            return value in texts
        if value is None:
            return "" in texts
        raise ExprEvalError(f"a list of texts holds no {type_name(value)}")

    return run


_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda text, part: part in text,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
}


def _text_test(operator: str, left: Node, right: Node) -> Node:
    if not left.nature is right.nature is STRING and not compatible(left.nature, right.nature, STRING):
        raise _refuse(operator, left, right)
    a, b, test = left.run, right.run, _TEXT_TESTS[operator]

    def run(frame: Frame) -> bool:
        x, y = a(frame), b(frame)
        if kind_of(x) is str and kind_of(y) is str:
            weigh(frame, x)
            return test(x, y)
        if x is None or y is None:
            return False
        raise mismatch(operator, x, y)

    return Node(run, BOOL, over(left, right))


def _matches(operator: str, left: Node, right: Node) -> Node:
    known = left.nature in (STRING, BYTES) and right.nature is STRING
    if not known and not compatible(left.nature, right.nature, STRING):
        raise _refuse(operator, left, right)
    a, b = left.run, right.run
    test = None
    if right.form == "literal":
        try:
            test = matcher(right.value)
        except ValueError as error:
            raise Refused(str(error)) from None

    def run(frame: Frame) -> bool:
        x, pattern = a(frame), right.value if test else b(frame)
        if x is None or pattern is None:
            return False
        text = x.decode("latin-1") if kind_of(x) is bytes else x
        if kind_of(text) is not str or kind_of(pattern) is not str:
            raise mismatch(operator, x, pattern)
        try:
            match = test or matcher(pattern)
        except ValueError as error:
            raise ExprEvalError(str(error)) from None
        return match(text, lambda steps: spend(frame, steps))

    return Node(run, BOOL, over(left, right))


def _coalesce(operator: str, left: Node, right: Node) -> Node:
    a, b = left.run, right.run
    if left.nature is NIL:
        nature = right.nature
    elif right.nature is NIL or assignable(right.nature, left.nature):
        nature = left.nature
    else:
        nature = UNKNOWN

    def run(frame: Frame) -> Any:
        value = a(frame)
        return b(frame) if value is None else value

    return Node(run, nature, over(left, right))


_BINARY: dict[str, Callable[[str, Node, Node], Node]] = {
    **dict.fromkeys(("and", "&&", "or", "||"), _truth_operator),
    **dict.fromkeys(("==", "!="), _equality),
    **dict.fromkeys(("<", "<=", ">", ">="), _ordering),
    **dict.fromkeys(("/", "**", "^"), _floating),
    **dict.fromkeys(("contains", "startsWith", "endsWith"), _text_test),
    **{"+": _plus, "-": _minus, "*": _times, "%": _modulo, "..": _range, "in": _membership},
    **{"matches": _matches, "??": _coalesce},
}


def binary(operator: str, left: Node, right: Node) -> Node:
    """`left operator right`. Raises `Refused`."""
    return _BINARY[operator](operator, left, right)
