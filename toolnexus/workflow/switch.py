"""Switch: one of several nodes, by a value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from toolnexus.core.options import expect
from toolnexus.errors import ConfigError, RunError
from toolnexus.runtime.context import RunContext
from toolnexus.runtime.hooks import settled
from toolnexus.workflow.node import Node, checked, decided, named, visit

I = TypeVar("I", contravariant=True)  # noqa: E741
O = TypeVar("O", covariant=True)  # noqa: E741
K = TypeVar("K", bound=Hashable)


class Switch(Node[I, O]):
    """Runs the node of `cases` that `key(input)` names, else `default`, on the input.

    `key` may be async, and is asked once. A value without a case and without a default is a `RunError`.
    """

    def __init__(
        self,
        key: Callable[[I], Any | Awaitable[Any]],
        cases: Mapping[Any, Node[I, O]],
        default: Node[I, O] | None = None,
        *,
        name: str = "switch",
    ) -> None:
        """Raises `ConfigError`."""
        if not callable(key):
            raise ConfigError(f"Switch: key={key!r}: give a function of the input")
        expect("Switch: cases", cases, Mapping, "give a mapping of values to nodes")
        if not cases:
            raise ConfigError("Switch: give at least one case")
        self._key = key
        self._cases: dict[Any, Node[I, O]] = {
            value: checked(node, f"Switch: case {value!r}") for value, node in cases.items()
        }
        self._default: Node[I, O] | None = None if default is None else checked(default, "Switch: default")
        self.name = named(name, "Switch")

    async def run(self, input: I, ctx: RunContext) -> O:
        case: str = await decided(ctx, "?", self._case, input)
        node = self._default if case == "default" else [*self._cases.values()][int(case)]
        assert node is not None
        return await visit(node, input, ctx, case)

    async def _case(self, input: I) -> str:
        """Which one, as a word: a key itself may be no JSON."""
        value = await settled(self._key(input))
        try:
            if value in self._cases:
                return str(list(self._cases).index(value))
        except TypeError:  # what cannot be hashed is no case
            pass
        if self._default is None:
            raise RunError(f"switch {self.name!r}: no case for {value!r}; there are: {list(self._cases)}")
        return "default"

    @property
    def children(self) -> Sequence[tuple[str, Node[Any, Any]]]:
        cases = [(str(value), node) for value, node in self._cases.items()]
        return cases if self._default is None else [*cases, ("else", self._default)]
