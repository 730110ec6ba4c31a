"""Sequential: one node after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

from toolnexus.errors import ConfigError
from toolnexus.runtime.context import RunContext
from toolnexus.workflow.node import Node, checked, named, visit

I = TypeVar("I", contravariant=True)  # noqa: E741
O = TypeVar("O", covariant=True)  # noqa: E741
In = TypeVar("In")
Out = TypeVar("Out")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")


class Sequential(Node[I, O]):
    """The output of each node is the input of the next; the last one's comes out.

    Types follow through up to seven nodes; nest sequences for more.
    """

    @overload
    def __init__(self: Sequential[In, Out], a: Node[In, Out], /, *, name: str = ...) -> None: ...
    @overload
    def __init__(
        self: Sequential[In, Out], a: Node[In, A], b: Node[A, Out], /, *, name: str = ...
    ) -> None: ...
    @overload
    def __init__(
        self: Sequential[In, Out], a: Node[In, A], b: Node[A, B], c: Node[B, Out], /, *, name: str = ...
    ) -> None: ...
    @overload
    def __init__(
        self: Sequential[In, Out],
        a: Node[In, A],
        b: Node[A, B],
        c: Node[B, C],
        d: Node[C, Out],
        /,
        *,
        name: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Sequential[In, Out],
        a: Node[In, A],
        b: Node[A, B],
        c: Node[B, C],
        d: Node[C, D],
        e: Node[D, Out],
        /,
        *,
        name: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Sequential[In, Out],
        a: Node[In, A],
        b: Node[A, B],
        c: Node[B, C],
        d: Node[C, D],
        e: Node[D, E],
        f: Node[E, Out],
        /,
        *,
        name: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Sequential[In, Out],
        a: Node[In, A],
        b: Node[A, B],
        c: Node[B, C],
        d: Node[C, D],
        e: Node[D, E],
        f: Node[E, F],
        g: Node[F, Out],
        /,
        *,
        name: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Sequential[Any, Any],
        a: Node[Any, Any],
        b: Node[Any, Any],
        c: Node[Any, Any],
        d: Node[Any, Any],
        e: Node[Any, Any],
        f: Node[Any, Any],
        g: Node[Any, Any],
        h: Node[Any, Any],
        /,
        *more: Node[Any, Any],
        name: str = ...,
    ) -> None: ...
    def __init__(self, *nodes: Node[Any, Any], name: str = "sequential") -> None:
        """Raises `ConfigError` for no node at all, and for what is none."""
        if not nodes:
            raise ConfigError("Sequential: give at least one node")
        self._nodes = tuple([checked(node, f"Sequential: node {n}") for n, node in enumerate(nodes)])
        self.name = named(name, "Sequential")

    async def run(self, input: I, ctx: RunContext) -> O:
        value: Any = input
        for n, node in enumerate(self._nodes):
            value = await visit(node, value, ctx, str(n))
        return value

    @property
    def children(self) -> Sequence[tuple[str, Node[Any, Any]]]:
        return [("", node) for node in self._nodes]
