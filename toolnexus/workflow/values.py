"""Values of nodes and slots as JSON, for a run that waits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from toolnexus.engine.output import MAX_PROBLEMS, VALUE, Misfit, output_type_of
from toolnexus.errors import RunError


def to_json(value: Any, what: str) -> Any:
    """`value` as JSON: plain JSON, and whatever pydantic can write. Raises `RunError` that names `what`."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        if isinstance(value, Iterator):
            raise TypeError("what can be read once is not there any more")
        data = to_jsonable_python(value, by_alias=True, fallback=_listed)
        json.dumps(data, allow_nan=False)
        return data
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        kind = type(cast("object", value)).__name__
        raise RunError(
            f"{what} holds a {kind}, which cannot be kept while the run waits; use JSON values, "
            "dataclasses or pydantic models"
        ) from error


def _listed(value: Any) -> Any:
    """What is as good as a list. Raises `TypeError`."""
    if isinstance(value, range):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def as_text(value: Any) -> str:
    """`value` as a model reads it: text as it is, anything else as JSON, as far as that goes."""
    from pydantic_core import to_json as dumped

    return value if isinstance(value, str) else dumped(value, by_alias=True, fallback=repr).decode()


def fitting(value: Any, hint: Any, where: str) -> Any:
    """`value` as `hint` (a type, or a JSON Schema) says. Raises `RunError` that begins with `where`."""
    form = output_type_of(hint)
    assert form is not None
    try:
        if isinstance(hint, Mapping):
            return form.value({VALUE: value} if form.wrapped else value)
        from pydantic import TypeAdapter

        return TypeAdapter(hint).validate_python(value)
    except (Misfit, ValueError, TypeError, AttributeError) as error:
        kind = type(value).__name__
        raise RunError(f"{where} gave {kind}, which does not fit {form.spec.name!r}: {_why(error)}") from None


def from_json(data: Any, hint: Any) -> Any:
    """What `to_json` wrote, as `hint` says; as it is without one. Raises `RunError` when it does not fit."""
    if hint is None:
        return data
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(hint).validate_json(json.dumps(data))
    except PydanticUserError:
        return data
    except ValidationError as error:
        raise RunError(f"a stored value is no {hint!r} any more: {_why(error)}") from None


def _why(error: Exception) -> str:
    """What does not fit, without the value: that may be anything."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    found = [f"{'.'.join(map(str, one['loc'])) or 'the value'}: {one['msg']}" for one in error.errors()]
    return "; ".join(found[:MAX_PROBLEMS])
