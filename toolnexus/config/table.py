"""What the shape of a document is made of: tables with known keys, values of several kinds.

Imports pydantic, so it is itself imported only when a document is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from toolnexus.tools.permissions import NO_RULE, RULE, is_rule


def camel(name: str) -> str:
    """`max_turns` as `maxTurns`."""
    first, *more = name.split("_")
    return first + "".join(word.title() for word in more)


class Table(BaseModel):
    """A table with known keys. Each is written like_this or likeThis; null is a key not given."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, protected_namespaces=())
    hints: ClassVar[Mapping[str, str]] = {}
    """What to say of keys that look right and are not."""

    @classmethod
    def keys(cls) -> list[str]:
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def twins(cls) -> dict[str, str]:
        """The other spelling of each key that has one."""
        out: dict[str, str] = {}
        for name, field in cls.model_fields.items():
            key = field.alias or name
            other = name if key == camel(name) else camel(name)
            if other != key and not key.startswith("$"):
                out[other] = key
        return out

    @model_validator(mode="before")
    @classmethod
    def _spelling(cls, data: Any, info: ValidationInfo) -> Any:
        if not isinstance(data, dict):
            return data
        table = cast("dict[str, Any]", data)
        if info.context is not None:
            info.context[id(table)] = cls  # errors ask which keys were allowed here
        twins = cls.twins()
        known = {*cls.keys(), *twins}
        given = {key: value for key, value in table.items() if value is not None or key not in known}
        # a key given in both spellings stays, and is refused as an unknown one
        return {k if twins.get(k, k) in given else twins.get(k, k): value for k, value in given.items()}

    def given(self, *names: str) -> dict[str, Any]:
        """Those of the fields that the document sets."""
        return {n: getattr(self, n) for n in names or type(self).model_fields if n in self.model_fields_set}


def by_kind(**tags: type) -> Callable[[Any], str | None]:
    def tag(value: Any) -> str | None:
        return next((f"\0{t}" for t, kind in tags.items() if isinstance(value, kind)), None)

    return tag


def one_of(allowed: str, tag: Callable[[Any], str | None]) -> Discriminator:
    return Discriminator(tag, custom_error_type="kind", custom_error_message=f"must be {allowed}")


Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Amount = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]
AgentName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"\S")]

Texts = Annotated[
    Annotated[Text, Tag("\0text")] | Annotated[list[Text], Tag("\0list")],
    one_of("text or a list of texts", by_kind(text=str, list=list)),
]
Filter = Annotated[
    Annotated[bool, Tag("\0flag")]
    | Annotated[list[str], Tag("\0list")]
    | Annotated[dict[str, bool], Tag("\0table")],
    one_of(
        "a list of names, a table of names to true or false, or a bool",
        by_kind(flag=bool, list=list, table=dict),
    ),
]


def _rule(text: str) -> str:
    if not is_rule(text):
        raise PydanticCustomError("rule", "it " + NO_RULE)
    return text


_PATTERN = re.sub(r"\?P<\w+>", "", RULE)

Permissions = Annotated[
    dict[Annotated[str, AfterValidator(_rule)], Literal["allow", "ask", "deny"]],
    Field(json_schema_extra={"propertyNames": {"pattern": rf"^\s*{_PATTERN}\s*$"}}),
]
