"""The built-in functions that take values; those that take a predicate are in `predicates.py`."""

from __future__ import annotations

from toolnexus.graph.expr.functions import arrays, numbers, texts, times
from toolnexus.graph.expr.functions.base import Builtin

BUILTINS: dict[str, Builtin] = {
    **texts.FUNCTIONS,
    **numbers.FUNCTIONS,
    **arrays.FUNCTIONS,
    **times.FUNCTIONS,
}
