"""The contract of a function: its JSON Schema, and the check that gives it typed arguments.

Imported at the first use of a schema; everything of pydantic that functions need is here.
"""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, cast

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python

from toolnexus.core.schema import shown_keys
from toolnexus.errors import ConfigError, ToolError
from toolnexus.tools.arguments import explain, path_text, refusal, shown
from toolnexus.tools.coerce import coerce
from toolnexus.tools.forms import Forms
from toolnexus.tools.quick import quick_check
from toolnexus.tools.signature import EMPTY, Signature, is_context
from toolnexus.tools.typed_dicts import readable

_AS_THEY_ARE = (str, int, bool)
"""Types whose valid values need not even be looked at by pydantic."""


class Contract:
    """The schema of a signature, and the check that gives the function its arguments.

    Raises `ConfigError` naming function and parameter when a type has no JSON Schema.
    """

    def __init__(self, signature: Signature) -> None:
        hints = signature.hints()
        taken = list(signature.parameters.values())
        if taken and taken[0].name in ("self", "cls") and taken[0].annotation is EMPTY:
            raise ConfigError(f"function {signature.name!r} is a method; give the one of an instance")
        self._context = [name for name, hint in hints.items() if is_context(hint)]
        self._positional = [p for p in taken if p.kind is p.POSITIONAL_ONLY]
        asked = {name: readable(hint) for name, hint in hints.items() if name not in self._context}
        model = _model(signature, asked)
        self._fields = list(zip(model.model_fields, asked, strict=True))
        self._validator = model.__pydantic_validator__
        self._filled = _filled_by_pydantic(signature, asked, model)
        self.schema = _schema(signature, asked, model)
        self._keys = shown_keys(self.schema["properties"])
        self._forms = Forms(self.schema)
        self._is_plain = all(map(_is_plain, asked.values()))
        self._needs_nothing = not self._filled and "required" not in self.schema
        as_they_are = not self._filled and all(hint in _AS_THEY_ARE for hint in asked.values())
        self._quick = quick_check(self.schema) if as_they_are else None

    def check(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """`arguments` in the types that the function names; what was not given stays away.

        Raises `ToolError` that names each wrong field.
        """
        if not arguments and self._needs_nothing:
            return {}
        if self._keys:
            arguments = {self._keys.get(key, key): value for key, value in arguments.items()}
        if self._quick is not None and self._quick(arguments):
            return arguments
        values = self._as_sent(arguments) if self._is_plain else None
        if values is None:
            arguments = coerce(arguments, self.schema, self._forms)
            try:
                values = self._typed(arguments)
            except ToolError:
                raise
            except Exception as error:  # validators in the types are foreign code
                raise ToolError(refusal(tool, self._problems(error, arguments))) from None
        members, given = values.__dict__, values.__pydantic_fields_set__
        return {name: members[f] for f, name in self._fields if f in given or name in self._filled}

    def bind(self, arguments: dict[str, Any], ctx: Any) -> tuple[list[Any], dict[str, Any]]:
        """`arguments` as the function is called with them."""
        if not self._context and not self._positional:
            return [], arguments
        named = {**arguments, **dict.fromkeys(self._context, ctx)}
        return [named.pop(p.name, p.default) for p in self._positional], named

    def _as_sent(self, arguments: dict[str, Any]) -> Any:
        """The values when nothing needs repair, as is usual; repairs never change what is valid."""
        try:
            return self._validator.validate_python(arguments, strict=True)
        except Exception:
            return None

    def _typed(self, arguments: dict[str, Any]) -> Any:
        """Strict in both ways: nothing is converted but what JSON cannot say (dates, enums, models)."""
        if self._is_plain:
            return self._validator.validate_python(arguments, strict=True)
        try:
            text = json.dumps(arguments)
        except TypeError:  # a host gave values that are typed already
            return self._validator.validate_python(arguments)
        return self._validator.validate_json(text, strict=True)

    def _problems(self, error: Exception, arguments: dict[str, Any]) -> list[str]:
        return problems(self.schema, error, arguments)


def problems(schema: dict[str, Any], error: Exception, arguments: dict[str, Any]) -> list[str]:
    """Why `arguments` were refused with `error`: a line for each wrong field."""
    if not isinstance(error, ValidationError):
        return [f"{type(error).__name__}: {error}"]
    lines = _violations(schema, arguments)
    told = tuple(line.partition(":")[0] for line in lines)
    return lines + [text for field, text in _messages(error, arguments) if not _is_told(field, told)]


def _violations(schema: dict[str, Any], arguments: dict[str, Any]) -> list[str]:
    """What the schema itself says against `arguments`, in the same words as for any other tool."""
    try:
        return explain(schema, arguments)
    except Exception:  # such as a pattern that only pydantic's engine understands
        return []


def _messages(error: ValidationError, arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """Each argument that is refused, with why."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in error.errors(include_url=False, include_context=False):
        path = list(real_path(one["loc"], arguments))
        where = f"{path_text(path)}: {shown(one['input'])} is refused"
        found.setdefault((path_text(path[:1]), where), []).append(one["msg"])
    return [(field, f"{where}: {' / '.join(texts)}") for (field, where), texts in found.items()]


def _is_told(field: str, told: tuple[str, ...]) -> bool:
    return any(place == field or place.startswith((f"{field}.", f"{field}[")) for place in told)


def real_path(loc: tuple[int | str, ...], value: Any) -> Iterator[int | str]:
    """The steps of `loc` that exist in `value`: pydantic also names the forms of a union."""
    for step in loc:
        if isinstance(value, dict) and step in value:
            value = cast("dict[Any, Any]", value)[step]
            yield step
        elif isinstance(value, list) and isinstance(step, int) and step < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[step]
            yield step


def _model(signature: Signature, asked: dict[str, Any]) -> Any:
    """A pydantic model with a field per parameter, named by alias: any name is allowed there."""
    docs = signature.docs()
    fields: dict[str, Any] = {
        f"p{n}": _field(signature.parameters[name], hint, docs.get(name))
        for n, (name, hint) in enumerate(asked.items())
    }
    try:
        return create_model(signature.name, __config__=ConfigDict(extra="forbid"), **fields)
    except Exception as error:
        raise _no_schema(signature, asked, error) from None


def _field(parameter: inspect.Parameter, hint: Any, doc: str | None) -> tuple[Any, Any]:
    extras = typing.get_args(hint)[1:] if typing.get_origin(hint) is Annotated else ()
    doc = next((extra for extra in extras if isinstance(extra, str)), doc)
    options: dict[str, Any] = {"alias": parameter.name}
    default = parameter.default
    if isinstance(default, FieldInfo):
        hint, extras = Annotated[hint, default], (*extras, default)
    elif default is not EMPTY:
        options["default_factory"] = _nothing  # the function has its default itself
        options["json_schema_extra"] = _json_default(default)
    if doc and not any(isinstance(e, FieldInfo) and e.description for e in extras):
        options["description"] = doc
    return hint, Field(**options)


def _nothing() -> None:
    return None


def _json_default(value: Any) -> dict[str, Any]:
    """`default` for a schema; left out when JSON cannot say it, or not twice in the same order."""
    if isinstance(value, (set, frozenset)):
        return {}
    try:
        default = to_jsonable_python(value)
        json.dumps(default, allow_nan=False)
    except ValueError:
        return {}
    return {"default": default}


def _filled_by_pydantic(signature: Signature, asked: dict[str, Any], model: Any) -> set[str]:
    """Parameters whose default is in a `Field(…)`, so that the function does not know it."""
    infos = model.model_fields.values()
    return {
        name
        for name, info in zip(asked, infos, strict=True)
        if not info.is_required() and info.default_factory is not _nothing
    }


class SchemaGenerator(GenerateJsonSchema):
    """Without the titles that pydantic makes up from names: every token is read by a model."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _schema(signature: Signature, asked: dict[str, Any], model: Any) -> dict[str, Any]:
    try:
        schema = model.model_json_schema(schema_generator=SchemaGenerator)
    except Exception as error:
        raise _no_schema(signature, asked, error) from None
    order = ("type", "properties", "required", "additionalProperties", "$defs")
    return {key: schema[key] for key in order if key in schema}


def _no_schema(signature: Signature, asked: dict[str, Any], error: Exception) -> ConfigError:
    """The error that names the parameter which has no schema."""
    for name, hint in asked.items():
        try:
            TypeAdapter(hint).json_schema()
        except Exception as own:
            return ConfigError(
                f"function {signature.name!r}: the type of parameter {name!r} has no JSON Schema: "
                f"{inspect.formatannotation(hint)}; {advice(own)}"
            )
    return ConfigError(f"function {signature.name!r} has no JSON Schema: {str(error).splitlines()[0]}")


def advice(error: Exception) -> str:
    """What to write instead; what pydantic advises is for its own models."""
    if isinstance(error, PydanticUserError) and error.code == "typed-dict-version":
        return "on this Python a TypedDict there must be typing_extensions.TypedDict"
    return (
        "types that work: str, int, float, bool, None, list, dict, tuple, set, Literal, Enum, dates, UUID,"
        " Path, dataclasses, TypedDict, pydantic models, and unions of these"
    )


def _is_plain(hint: Any) -> bool:
    """Whether JSON gives values of this type as they are, so that nothing has to be built."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _is_plain(args[0])
    if origin in (list, Union, types.UnionType):
        return all(map(_is_plain, args))
    if origin is dict:
        return args[0] is str and _is_plain(args[1])
    if origin is Literal:
        return all(type(arg) in (str, int, bool, type(None)) for arg in args)
    return any(hint is plain for plain in (str, int, float, bool, list, dict, Any, object, type(None)))
