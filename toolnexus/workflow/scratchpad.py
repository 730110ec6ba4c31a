"""Shared state of a run: typed slots, some of them one value for the whole tree, some one per branch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, cast

from toolnexus.core.options import expect, expect_callable
from toolnexus.errors import ConfigError
from toolnexus.workflow.values import from_json, to_json

T = TypeVar("T")
Scope = Literal["run", "branch"]
Merge = Literal["last", "append"] | Callable[[Any, Any], Any]

_MISSING: Any = object()


class Slot(Generic[T]):
    """A place for one value, by name and type.

    * `scope`: `"run"`, one value for the whole tree, or `"branch"`, a fresh one for each branch of
      `Parallel` and `FanOut`, and for each call of an agent or a node as a tool.
    * `merge`: how what branches set comes back, in index order: `"last"`, `"append"` (their lists are put
      behind the one that is there), or a function of the value so far (None when there is none) and a
      branch's value. None: what a branch sets is dropped with it.
    * `type`: what a value is restored as when a run goes on in another process.

    Raises `ConfigError` for a merge of a run-scoped slot: nothing comes back that was never apart.
    """

    __slots__ = ("merge", "name", "scope", "type")

    def __init__(
        self,
        name: str,
        type: type[T] | Any = None,
        *,
        scope: Scope = "run",
        merge: Merge | None = None,
    ) -> None:
        expect("Slot: name", name, str, "give text")
        if not name:
            raise ConfigError("a slot needs a name")
        if scope not in ("run", "branch"):
            raise ConfigError(f"slot {name!r}: scope={scope!r} must be 'run' or 'branch'")
        if merge is not None and scope == "run":
            raise ConfigError(f"slot {name!r}: merge={merge!r} goes with scope='branch'")
        if merge not in ("last", "append"):
            expect_callable(
                f"slot {name!r}: merge", merge, "give 'last', 'append', or a function of two values"
            )
        self.name = name
        self.type = type
        self.scope: Scope = scope
        self.merge = merge

    def __repr__(self) -> str:
        return f"Slot({self.name!r}, scope={self.scope!r})"


class Scratchpad:
    """The values of slots. What is read is what was set: the same object, never a copy.

    `ctx.get(SCRATCHPAD)` is the one of this branch. Two slots of one name are one place; which slot comes
    first says what it is.
    """

    __slots__ = ("_late", "_own", "_shared", "_slots")

    def __init__(self) -> None:
        self._shared: dict[str, Any] = {}
        self._own: dict[str, Any] = {}
        self._late: dict[str, list[Any]] = {}
        """What restored branches brought for slots that nobody has used since: no rule is known yet."""
        self._slots: dict[str, Slot[Any]] = {}

    def get(self, slot: Slot[T], default: T | None = None) -> T | None:
        """The value of `slot`, or `default`."""
        values = self._values(slot)
        value = values.get(slot.name, _MISSING)
        if isinstance(value, _Stored):
            value = values[slot.name] = _read(value, slot)
        return default if value is _MISSING else cast("T", value)

    def set(self, slot: Slot[T], value: T) -> None:
        """Put `value` into `slot`."""
        self._values(slot)[slot.name] = value

    def fork(self) -> Scratchpad:
        """A pad for a branch: run-scoped slots are shared, branch-scoped ones begin empty."""
        branch = Scratchpad()
        branch._shared, branch._slots = self._shared, self._slots
        return branch

    def join(self, branches: Sequence[Scratchpad]) -> None:
        """Merge what `branches` set, in this order, by the rule of each slot."""
        for branch in branches:
            brought = [*((name, [value]) for name, value in branch._own.items()), *branch._late.items()]
            for name, values in brought:
                slot = self._slots.get(name)
                if slot is None:
                    self._late.setdefault(name, []).extend(values)
                else:
                    self._merge(slot, values)

    def _merge(self, slot: Slot[Any], brought: Sequence[Any]) -> None:
        if slot.merge is not None:
            for value in brought:
                self.set(slot, _merged(slot.merge, self.get(slot), _read(value, slot)))

    def to_json(self, *, shared: bool = False) -> dict[str, Any]:
        """The values of this branch as JSON, with `shared` also those of the run.

        Raises `RunError` that names the slot whose value is none.
        """
        late = {name: [_write(value, name) for value in values] for name, values in self._late.items()}
        run = {"run": _written(self._shared)} if shared else {}
        return {"branch": _written(self._own), "late": late, **run}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Take the values that `to_json` wrote; each becomes what its slot says when it is read."""
        run: Mapping[str, Any] = data.get("run", {})
        self._shared.update({name: _Stored(value) for name, value in run.items()})
        self._own.update({name: _Stored(value) for name, value in data["branch"].items()})
        self._late.update({name: [_Stored(v) for v in values] for name, values in data["late"].items()})

    def _values(self, slot: Slot[Any]) -> dict[str, Any]:
        known = self._slots.setdefault(slot.name, slot)
        if known is not slot and known.scope != slot.scope:
            raise ConfigError(f"two slots are called {slot.name!r}, with different scopes")
        if self._late and (brought := self._late.pop(slot.name, None)) is not None:
            self._merge(slot, brought)
        return self._shared if slot.scope == "run" else self._own


class _Stored:
    """A value as JSON that no slot has asked for yet."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data


def _merged(merge: Any, so_far: Any, value: Any) -> Any:
    if merge == "last":
        return value
    if merge == "append":
        return [*(so_far or ()), *value]
    return merge(so_far, value)


def _read(value: Any, slot: Slot[Any]) -> Any:
    return from_json(value.data, slot.type) if isinstance(value, _Stored) else value


def _write(value: Any, name: str) -> Any:
    return value.data if isinstance(value, _Stored) else to_json(value, f"slot {name!r}")


def _written(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _write(value, name) for name, value in values.items()}
