"""What a function takes, read from its hints and docstring without pydantic."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Optional, Union

from toolnexus.errors import ConfigError
from toolnexus.runtime.context import ToolContext

EMPTY = inspect.Parameter.empty
_SECTION = (
    r"^[ \t]*(?:(?:Args|Arguments|Parameters|Params|Other Parameters|Returns|Return|Yields|Raises|Attributes)"
    r"(?::[ \t]*$|[ \t]*\n[ \t]*-{3,})|:(?:param|arg|type|returns?|rtype|raises?)\b)"
)


def _first_section(doc: str) -> re.Match[str] | None:
    """Where arguments and the like begin in a docstring."""
    if ":" not in doc and "---" not in doc:  # most have none, and the pattern takes long to compile
        return None
    return re.search(_SECTION, doc, re.MULTILINE)


class Signature:
    """The parameters of a function that a model fills in.

    Raises `ConfigError` naming function and parameter for what no schema can say. Annotations that
    are not defined yet are looked up again when the contract is built.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.function = plain(fn)
        self.name = str(getattr(self.function, "__name__", type(self.function).__name__))
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise ConfigError(f"function {self.name!r} yields; a tool returns one value")
        try:
            signature = inspect.signature(fn)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"function {self.name!r} has no readable signature: {error}") from None
        self.parameters = {n: p for n, p in signature.parameters.items() if n not in _bound(fn)}
        self.returns_nothing = signature.return_annotation in (None, "None")
        for parameter in self.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise ConfigError(
                    f"function {self.name!r}: parameter {str(parameter)!r} has no fixed names for a model "
                    "to fill in; name each parameter"
                )
        self._hints: dict[str, Any] = {}
        scope = self._scope(_enclosing_names(self.function))
        for name in self.parameters:
            try:
                self._hints[name] = self._resolve(name, scope)
            except (NameError, AttributeError):
                pass  # perhaps defined later

    def inherit(self, unbound: Signature) -> None:
        """Take over what the decorated method found around its definition."""
        self._hints |= {name: hint for name, hint in unbound._hints.items() if name in self.parameters}

    @property
    def description(self) -> str:
        """The docstring up to its first section."""
        text = self._doc
        section = _first_section(text)
        return text[: section.start()].strip() if section else text

    @property
    def _doc(self) -> str:
        return inspect.getdoc(self.function) or ""

    def hints(self) -> dict[str, Any]:
        """The type of each parameter; `Any` where none is named. Raises `ConfigError`."""
        for name in self.parameters:
            if name in self._hints:
                continue
            try:
                self._hints[name] = self._resolve(name, self._scope({}))
            except (NameError, AttributeError) as error:
                raise ConfigError(
                    f"function {self.name!r}: the type of parameter {name!r} cannot be found ({error}); "
                    "define or import it where the function is, and not for type checkers only"
                ) from None
        return {name: self._hints[name] for name in self.parameters}

    def docs(self) -> dict[str, str]:
        """What the docstring says of each parameter: Google, NumPy and reST styles."""
        if not _first_section(self._doc):
            return {}
        import docstring_parser

        return {p.arg_name: p.description for p in docstring_parser.parse(self._doc).params if p.description}

    def _scope(self, local_names: Mapping[str, Any]) -> dict[str, Any]:
        type_params = {t.__name__: t for t in getattr(self.function, "__type_params__", ())}
        global_names: dict[str, Any] = getattr(_code(self.function), "__globals__", {})
        return {"ToolContext": ToolContext, **global_names, **local_names, **type_params}

    def _resolve(self, name: str, scope: dict[str, Any]) -> Any:
        parameter = self.parameters[name]
        if parameter.annotation is EMPTY:
            return Any
        holder = types.SimpleNamespace(__annotations__={name: parameter.annotation})
        try:
            hint = typing.get_type_hints(holder, scope, include_extras=True)[name]
        except (SyntaxError, TypeError) as error:
            raise ConfigError(
                f"function {self.name!r}: parameter {name!r} has no usable type: {error}"
            ) from None
        return _optional(hint) if parameter.default is None else hint


def plain(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind partials and callable objects."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def _bound(fn: Callable[..., Any]) -> set[str]:
    """The parameters that a partial has already filled in; a model neither sees nor changes them."""
    names: set[str] = set()
    while isinstance(fn, functools.partial):
        names |= fn.keywords.keys()
        fn = fn.func
    return names


def _code(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Where the annotations of `fn` were written."""
    fn = inspect.unwrap(fn)
    if inspect.isclass(fn):
        return fn.__init__
    return fn if hasattr(fn, "__globals__") else type(fn).__call__


def _enclosing_names(fn: Callable[..., Any]) -> dict[str, Any]:
    """The local names around the definition of `fn`, as far as that code still runs."""
    code = _code(fn)
    home, module = getattr(code, "__qualname__", ""), getattr(code, "__globals__", None)
    names: dict[str, Any] = {}
    frame = sys._getframe(1) if "." in home else None
    while frame is not None:
        if frame.f_globals is module and home.startswith(f"{frame.f_code.co_qualname}."):
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names


def _optional(hint: Any) -> Any:
    """`hint` with room for the default None."""
    if typing.get_origin(hint) is Annotated:
        inner, *extras = typing.get_args(hint)
        return Annotated[(_optional(inner), *extras)]
    return hint if hint in (Any, object, None, type(None)) else Optional[hint]  # noqa: UP045


def is_context(hint: Any) -> bool:
    """Whether a parameter of this type gets the `ToolContext`."""
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    union = typing.get_origin(hint) in (Union, types.UnionType)
    return any(option is ToolContext for option in (typing.get_args(hint) if union else (hint,)))
