"""The globals of one execution, put together: checked, and ready for a script runtime."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from toolnexus.errors import ErrorKind
from toolnexus.graph.board import copied
from toolnexus.graph.errors import GraphRunError, classified
from toolnexus.graph.scripts.bindings import Binding, BindingsProvider, late
from toolnexus.graph.scripts.invocation import Function, Invocation
from toolnexus.graph.scripts.runtime import Method, ScriptError

logger = logging.getLogger("toolnexus.graph")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LUA = frozenset(
    "and break do else elseif end false for function goto if in local nil not or repeat return then true "
    "until while".split()
)
_JS = frozenset(
    "arguments await break case catch class const continue debugger default delete do else enum eval export "
    "extends false finally for function if implements import in instanceof interface let new null package "
    "private protected public return static super switch this throw true try typeof undefined var void while "
    "with yield".split()
)
_OWN = ("config", "signal")
_FINAL = (ErrorKind.INTERRUPTED, ErrorKind.ABORTED, ErrorKind.BUDGET_EXCEEDED)
"""Failures that end the node, whether the script would catch them or not."""


class Environment:
    """The globals of one execution, as a script runtime takes them.

    Raises `GraphRunError` (validation) for a name that is bound twice or that no script could write.
    """

    def __init__(self, provider: BindingsProvider, invocation: Invocation) -> None:
        self._invocation = invocation
        self._functions: dict[str, Function] = {}
        self.bindings: dict[str, Binding] = {}
        self.surface: dict[str, list[Method] | Method] = {}
        self.constants: dict[str, Any] = {}
        self._add(provider.bind(invocation))
        self._add(late(provider, invocation, dict(self.bindings)))
        if logger.isEnabledFor(logging.DEBUG):
            globals_ = ", ".join(sorted(self.bindings)) or "none"
            told = (invocation.ctx.graph, invocation.ctx.node_id, invocation.ctx.node_type, globals_)
            logger.debug("script bindings assembled: graph %r, node %r of type %r: %s", *told)

    async def call(self, path: str, args: list[Any]) -> Any:
        """What the function at `path` gives. See `HostCall`."""
        function = self._functions.get(path) or self._invocation.handles[path]
        assert function.call is not None
        args = _fitting(path, function.call, args, self._invocation.runtime.language)
        try:
            result = function.call(*args)
            return await result if inspect.isawaitable(result) else result
        except Exception as error:
            raise self._told(path, error) from error

    def _add(self, bindings: Sequence[Binding]) -> None:
        for binding in bindings:
            if problem := _unusable(binding.name):
                raise _wrong(f"{binding.name!r} cannot be a global: {problem}")
            if binding.name in self.bindings:
                raise _wrong(f"the global {binding.name!r} is bound twice")
            self.bindings[binding.name] = binding
            self._install(binding.name, binding.value)

    def _install(self, name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            self._install_table(name, cast("Mapping[str, Any]", value))
        elif (function := _function(value)) is not None:
            self.surface[name] = Method(name, function.lua)
            self._functions[name] = function
        else:
            self.constants[name] = copied(value, name)

    def _install_table(self, global_: str, table: Mapping[str, Any]) -> None:
        methods: list[Method] = []
        constants: dict[str, Any] = {}
        for name, value in table.items():
            path = f"{global_}.{name}"
            if not _NAME.fullmatch(name) or name in _LUA:
                raise _wrong(f"{path!r} cannot be written in a script: use letters, digits and _")
            if (function := _function(value)) is not None:
                methods.append(Method(name, function.lua))
                self._functions[path] = function
            else:
                constants[name] = copied(value, path)
        self.surface[global_] = methods
        if constants:
            self.constants[global_] = constants

    def _told(self, path: str, error: Exception) -> Exception:
        """`error` as the script sees it, or as the node fails with it."""
        ctx = self._invocation.ctx
        if isinstance(error, ScriptError):
            return ScriptError(error.kind, ctx.rail.run.redact(error.message))
        known = classified(error, graph=ctx.graph, node_id=ctx.node_id)
        if known.kind in _FINAL:
            return known
        text = str(error) or type(error).__name__
        if not isinstance(error, GraphRunError):
            text = f"{path} failed: {type(error).__name__}: {text}"
        return ScriptError(known.kind, ctx.rail.run.redact(text))


def _function(value: Any) -> Function | None:
    if isinstance(value, Function):
        return value
    return Function(value) if callable(value) else None


@lru_cache(1024)
def _unusable(name: str) -> str:
    """Why no script could write this global, or nothing."""
    if not _NAME.fullmatch(name):
        return "it is no identifier; use letters, digits and _"
    if name in _JS or name in _LUA:
        return "it is a keyword of JavaScript or Lua"
    return "every script has one of its own" if name in _OWN else ""


def _wrong(problem: str) -> GraphRunError:
    return GraphRunError(f"script bindings: {problem}", kind="validation")


def _fitting(path: str, call: Callable[..., Any], args: list[Any], language: str) -> list[Any]:
    """The arguments as the function takes them. As everywhere in JavaScript, more of them do no harm; in Lua
    they are the second value of a call in argument position, which must not get lost."""
    routine: Any = call if inspect.isroutine(call) else call.__call__
    bound = inspect.ismethod(routine)
    least, most = _arity(routine.__func__ if bound else routine)
    least, most = least - bound, most - bound
    if language != "lua":
        args = args[: int(min(most, len(args)))]
    if least <= len(args) <= most:
        return args
    expected = str(least) if least == most else f"{least} to {most}"
    problem = f"{path}: expected {expected} argument{'' if expected == '1' else 's'}, got {len(args)}"
    if language == "lua":  # not returned as an error that nobody looks at
        raise GraphRunError(problem, kind="validation")
    raise ScriptError("validation", problem)


@lru_cache(1024)
def _arity(function: Callable[..., Any]) -> tuple[int, float]:
    """The least and the most positional arguments of a function."""
    least, most = 0, 0.0
    try:
        signature = inspect.signature(function)
    except ValueError:  # one of C that does not tell
        return 0, float("inf")
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            most = float("inf")
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            most += 1
            least += parameter.default is parameter.empty
    return least, most
