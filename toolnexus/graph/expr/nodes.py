"""A compiled part of an expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolnexus.graph.expr.natures import BOOL, FLOAT, INT, NIL, STRING, Nature
from toolnexus.graph.expr.values import Frame

MAX_DEPTH = 200
"""How deep the parts of an expression may be nested."""

Run = Callable[[Frame], Any]


class Refused(Exception):
    """A static error without its place; the parser knows where it is."""


class Node:
    """How to compute a part (`run`), what is known of its type, and what later steps may fold.

    `form` and `value` together: `literal` and its value; `constants`, a list of literals; `list` and its
    nodes; `chain` and the run that says GONE; `or`, `and` and their runs; `env`.
    """

    __slots__ = ("depth", "form", "nature", "run", "value")

    def __init__(self, run: Run, nature: Nature, depth: int = 1, form: str = "", value: Any = None) -> None:
        if depth > MAX_DEPTH:
            raise Refused(f"nested deeper than {MAX_DEPTH}; split the expression")
        self.run = run
        self.nature = nature
        self.depth = depth
        self.form = form
        self.value = value


_NATURES = {int: INT, float: FLOAT, str: STRING, bool: BOOL, type(None): NIL}


def literal(value: Any) -> Node:
    """A value that stands in the text, or that folding found."""
    return Node(lambda frame: value, _NATURES[type(value)], 1, "literal", value)


def over(*nodes: Node) -> int:
    """The depth of a node above these."""
    return 1 + max((node.depth for node in nodes), default=0)
