"""Values are data classes, whatever is compiled late."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any, ClassVar

import pytest

from toolnexus.core.values import frozen, mutable, value


@value()
class Price:
    """A price."""

    unit: ClassVar[str] = "USD"
    amount: float
    name: str = "none"
    tags: dict[str, str] = field(default_factory=dict[str, str], compare=False)
    note: str | None = field(default=None, kw_only=True, compare=False, repr=False)


@value(kw_only=True)
class Offer(Price):
    """A price with an end."""

    days: int = 7
    total: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.amount * self.days)


@frozen()
class Key:
    """A name in a place."""

    place: str
    name: str = "main"
    given: list[str] = field(default_factory=list[str], compare=False)


@frozen(kw_only=True)
class OddNames:
    """Names that generated code uses."""

    fresh: int
    put: int = 2
    make: int = 3
    fields: list[int] = field(default_factory=list[int])


@mutable(kw_only=True)
class Count:
    """A count."""

    name: str
    of: int = 0


@frozen()
class Nothing:
    """No fields."""


def _standard(cls: Any, **options: Any) -> Any:
    """The same class, made by the standard library alone."""
    body = {"__annotations__": cls.__annotations__, "__doc__": cls.__doc__, "__module__": cls.__module__}
    for f in dataclasses.fields(cls):
        made: Any = {n: getattr(f, n) for n in ("default", "default_factory", "compare", "repr", "init")}
        body[f.name] = field(**made, kw_only=bool(f.kw_only))
    plain: Any = dataclass(slots=True, **options)
    return plain(type(cls.__name__, (), {**body, "__qualname__": cls.__qualname__}))


def test_a_value_is_made_shown_and_compared_as_by_the_standard_library() -> None:
    """[ARCH-07] Signature, text, equality and hash are those of `dataclass`, with any kind of field."""
    twin = _standard(Price, frozen=True)
    assert str(inspect.signature(Price)) == str(inspect.signature(twin))
    assert repr(Price(1, note="x")) == repr(twin(1, note="x")) == "Price(amount=1, name='none', tags={})"
    assert Price(1, note="x") == Price(1, tags={"a": "b"}) != Price(2)
    assert hash(Price(1)) == hash(Price(1, note="x"))
    assert Price(1) != twin(1)
    assert Price(1).tags is not Price(1).tags
    assert not hasattr(Price(1), "__dict__")
    with pytest.raises(TypeError, match="amount"):
        Price()  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]


def test_a_value_inherits_fields_and_runs_its_own_start() -> None:
    """[ARCH-07] Fields of the base come first, those by name last; `__post_init__` runs."""
    offer = Offer(2.0, days=3)
    assert (offer.total, offer.name) == (6.0, "none")
    assert offer == Offer(2.0, days=3) != Price(2.0)
    assert replace(offer, days=1).total == 2.0
    assert [f.name for f in dataclasses.fields(Offer)][-2:] == ["days", "total"]


def test_a_frozen_value_cannot_change_and_can_be_copied() -> None:
    """[ARCH-07] Assignment and deletion are refused; copies and pickles are equal."""
    key = Key("a", given=["x"])
    with pytest.raises(FrozenInstanceError, match="'name'"):
        key.name = "b"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(FrozenInstanceError, match="'name'"):
        del key.name  # pyright: ignore[reportAttributeAccessIssue]
    for twin in (copy.copy(key), copy.deepcopy(key), pickle.loads(pickle.dumps(key)), replace(key)):
        assert twin == key and twin.given == ["x"] and hash(twin) == hash(key)
    assert OddNames(fresh=1) == OddNames(fresh=1, put=2, make=3, fields=[])
    assert Nothing() == Nothing() and repr(Nothing()) == "Nothing()"


def test_a_mutable_value_changes_and_has_no_hash() -> None:
    """[ARCH-07] What changes is compared by its fields, and is no key."""
    count = Count(name="a")
    count.of += 1
    assert count == Count(name="a", of=1) == pickle.loads(pickle.dumps(count))
    with pytest.raises(TypeError, match="unhashable"):
        hash(count)
    match count:
        case Count(name=name):
            assert name == "a"
