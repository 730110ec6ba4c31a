"""Expressions of the language expr-lang: the conditions of graphs, and `expr.eval` in scripts."""

from toolnexus.graph.expr.errors import ExprError, ExprEvalError, ExprSyntaxError
from toolnexus.graph.expr.program import Condition, Value, compile_value, evaluate

__all__ = [
    "Condition",
    "ExprError",
    "ExprEvalError",
    "ExprSyntaxError",
    "Value",
    "compile_value",
    "evaluate",
]
