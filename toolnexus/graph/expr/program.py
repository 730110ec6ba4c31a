"""Compiled expressions, ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from toolnexus.graph.expr.errors import ExprEvalError, ExprSyntaxError
from toolnexus.graph.expr.natures import BOOL, unknown
from toolnexus.graph.expr.parser import Compiled, compile_text
from toolnexus.graph.expr.texts import export
from toolnexus.graph.expr.values import MOST_STEPS, Frame, type_name

MOST_CACHED = 512


class Program:
    """A compiled expression; it holds no state of a run and can run in many threads at once.

    `names` are the variables it reads. `suspicious` are those of them that are constants in other languages
    (`True`, `None`, `null`, `undefined`) and plain, mostly missing variables here.
    """

    __slots__ = ("_blank", "_run", "names", "source", "suspicious")

    def __init__(self, source: str, compiled: Compiled) -> None:
        self.source = source
        self.names = compiled.names
        self.suspicious = compiled.suspicious
        self._run = compiled.node.run
        self._blank = [None] * compiled.slots

    def _value(self, env: Mapping[str, Any], finish: Callable[[Frame, Any], Any]) -> Any:
        frame: Frame = [env if type(env) is dict else dict(env), MOST_STEPS, *self._blank]
        try:
            return finish(frame, self._run(frame))
        except RecursionError:
            raise ExprEvalError("the expression or its data are nested too deeply") from None
        except MemoryError:
            raise ExprEvalError("the expression needs too much memory") from None


class Condition(Program):
    """An expression that says yes or no."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        """Compile `text`. Raises `ExprSyntaxError` where it is no expression or can never be a bool."""
        compiled = compile_text(text)
        nature = compiled.node.nature
        if nature is not BOOL and not unknown(nature):
            raise ExprSyntaxError(f"a condition is a bool, this is {nature.name}", text, 0)
        super().__init__(text, compiled)

    def __call__(self, env: Mapping[str, Any]) -> bool:
        """Whether it holds for these variables; nil is no. Raises `ExprEvalError`."""
        return self._value(env, _verdict)

    def __repr__(self) -> str:
        return f"Condition({self.source!r})"


def _verdict(frame: Frame, value: Any) -> bool:
    if value is True or value is False:
        return value
    if value is None:
        return False
    raise ExprEvalError(f"a condition is a bool, this gave {type_name(value)}")


class Value(Program):
    """An expression of any type."""

    __slots__ = ()

    def __call__(self, env: Mapping[str, Any]) -> Any:
        """Its value with these variables, detached, in JSON types. Raises `ExprEvalError`."""
        return self._value(env, export)


def compile_value(text: str) -> Value:
    """Compile `text`, whose unknown names are nil. Raises `ExprSyntaxError`."""
    return Value(text, compile_text(text))


_cached = lru_cache(MOST_CACHED)(compile_value)


def evaluate(text: str, env: Mapping[str, Any]) -> Any:
    """The value of `text` with these variables. The last 512 texts stay compiled.

    Raises `ExprSyntaxError` and `ExprEvalError`.
    """
    return _cached(text)(env)
