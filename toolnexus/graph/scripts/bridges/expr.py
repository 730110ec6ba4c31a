"""`expr`: expressions, in the language of conditions."""

from __future__ import annotations

from typing import Any

from toolnexus.graph.expr import ExprError, evaluate
from toolnexus.graph.scripts.bindings import Binding
from toolnexus.graph.scripts.bridges.arguments import invalid, table, text
from toolnexus.graph.scripts.invocation import Function, Invocation


def expr(invocation: Invocation) -> Binding:
    """The global. An unknown name in an expression is nil."""
    return Binding("expr", {"eval": Function(_eval, "value, err")})


def _eval(source: Any, env: Any = None) -> Any:
    try:
        return evaluate(text(source, "the expression"), table(env, "the environment of the expression"))
    except ExprError as error:
        raise invalid(f"expr.eval: {error}") from error
