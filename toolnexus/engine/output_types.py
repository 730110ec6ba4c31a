"""Python types as the form of an answer, through pydantic. Imported when the first one is asked for."""

from __future__ import annotations

import copy
import inspect
import json
from typing import Any, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError, create_model

from toolnexus.core.model import OutputSpec
from toolnexus.core.names import sanitize
from toolnexus.engine.output import Misfit
from toolnexus.engine.output_nodes import drop, rooted
from toolnexus.errors import ConfigError
from toolnexus.tools.coerce import coerce
from toolnexus.tools.contract import SchemaGenerator, advice, problems, real_path
from toolnexus.tools.forms import Forms
from toolnexus.tools.typed_dicts import readable


class TypedOutput:
    """A type as the form of an answer.

    Raises `ConfigError` for a type that has no JSON Schema.
    """

    def __init__(self, hint: Any) -> None:
        adapter = _adapter(hint)
        schema = rooted(_schema(hint, adapter))
        self.wrapped = schema.get("type") != "object"
        if self.wrapped:
            options = ConfigDict(extra="forbid")
            holder: Any = create_model("Answer", __config__=options, value=(readable(hint), ...))
            self._adapter: TypeAdapter[Any] = TypeAdapter(holder)
            schema = _schema(hint, self._adapter)
        else:
            self._adapter = adapter
        self._inner = adapter
        self._schema = schema
        self._forms = Forms(schema)
        name = getattr(hint, "__name__", "") or "answer"
        self.spec = OutputSpec(
            name=sanitize(name)[:64], schema=schema, description=str(schema.get("description", ""))
        )

    def value(self, data: dict[str, Any]) -> Any:
        """See `OutputType.value`. As for tools: converted is what JSON cannot say, or says in a string."""
        data = coerce(data, self._schema, self._forms)
        try:
            value = self._validated(data)
        except ValidationError as error:
            value = self._without_nulls(data, error)
        except Exception as error:  # validators in the types are foreign code
            raise Misfit([f"{type(error).__name__}: {error}"]) from None
        return value.value if self.wrapped else value

    def to_json(self, value: Any) -> Any:
        """See `OutputType.to_json`."""
        try:
            return self._inner.dump_python(value, mode="json", by_alias=True, warnings=False, fallback=repr)
        except Exception:  # serialisers in the types are foreign code, too
            return repr(value)

    def _validated(self, data: dict[str, Any]) -> Any:
        return self._adapter.validate_json(json.dumps(data), strict=True)

    def _without_nulls(self, data: dict[str, Any], error: ValidationError) -> Any:
        """A null where the type allows none means that the member was left out: then its default holds."""
        lean = copy.deepcopy(data)
        nulls = [list(real_path(e["loc"], data)) for e in error.errors() if e["input"] is None]
        try:
            if any([drop(lean, path) for path in nulls]):
                return self._validated(lean)
        except Exception:
            pass  # the first reasons say more
        lines = problems(self._schema, error, data)
        raise Misfit([line.replace("the arguments:", "the answer:", 1) for line in lines]) from None


def _adapter(hint: Any) -> TypeAdapter[Any]:
    is_model = hasattr(cast("object", hint).__class__, "model_fields")
    if isinstance(hint, str) or inspect.isroutine(hint) or is_model:
        raise ConfigError(f"{hint!r} is no type; give the type itself, such as list[int], or a JSON Schema")
    try:
        return TypeAdapter(readable(hint))
    except Exception as error:
        raise _no_schema(hint, error) from None


def _schema(hint: Any, adapter: TypeAdapter[Any]) -> dict[str, Any]:
    try:
        return adapter.json_schema(schema_generator=SchemaGenerator)
    except Exception as error:
        raise _no_schema(hint, error) from None


def _no_schema(hint: Any, error: Exception) -> ConfigError:
    return ConfigError(f"{inspect.formatannotation(hint)} has no JSON Schema; {advice(error)}")
