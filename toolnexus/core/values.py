"""How the values that runs make by the hundred are defined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

T = TypeVar("T")

if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def value(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...

else:

    def value(**options: Any) -> Callable[[type[T]], type[T]]:
        """A dataclass that nobody changes: compared and hashed by its fields, frozen for type checkers.

        Not at run time: guarding every field would make a value three times as dear to make, and a
        tenth of the cost of a run would go into it.
        """
        return dataclass(slots=True, unsafe_hash=True, **options)
