"""Values of nodes and slots as JSON, for a run that waits."""

from __future__ import annotations

import json
from typing import Any

from toolnexus.errors import RunError


def to_json(value: Any, what: str) -> Any:
    """`value` as JSON: plain JSON, and whatever pydantic can write. Raises `RunError` that names `what`."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        data = to_jsonable_python(value, by_alias=True)
        json.dumps(data, allow_nan=False)
        return data
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        kind = type(value).__name__
        raise RunError(
            f"{what} holds a {kind}, which cannot be kept while the run waits; use JSON values, "
            "dataclasses or pydantic models"
        ) from error


def as_text(value: Any) -> str:
    """`value` as a model reads it: text as it is, anything else as JSON, as far as that goes."""
    from pydantic_core import to_json as dumped

    return value if isinstance(value, str) else dumped(value, by_alias=True, fallback=repr).decode()


def from_json(data: Any, hint: Any) -> Any:
    """What `to_json` wrote, as `hint` says; as it is without one. Raises `RunError` when it does not fit."""
    if hint is None:
        return data
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(hint).validate_python(data)
    except PydanticUserError:
        return data
    except ValidationError as error:
        raise RunError(f"a stored value is no {hint!r} any more: {error}") from error
