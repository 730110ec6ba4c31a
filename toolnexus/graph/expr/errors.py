"""The two errors of expressions."""

from __future__ import annotations

from toolnexus.errors import ConfigError, ToolnexusError


class ExprError(ToolnexusError):
    """Base of both: an expression is wrong, or could not be evaluated."""


class ExprSyntaxError(ExprError, ConfigError):
    """The text is not an expression, or can never be evaluated: raised when it is compiled.

    `position` counts characters of `source` from 0; the message ends with the line and a caret under it.
    """

    def __init__(self, why: str, source: str, position: int) -> None:
        position = min(position, len(source))
        start = source.rfind("\n", 0, position) + 1
        end = source.find("\n", position)
        line = source[start : end if end >= 0 else len(source)]
        number = source.count("\n", 0, position) + 1
        column = position - start
        shown_from = max(0, column - 60)
        shown = line[shown_from : shown_from + 100]
        super().__init__(
            f"{why} (line {number}, column {column + 1})\n | {shown}\n | {'.' * (column - shown_from)}^"
        )
        self.why = why
        self.source = source
        self.position = position


class ExprEvalError(ExprError, ValueError):
    """An expression met a value that it cannot work with, or one of its limits: raised when it runs."""
