"""Loop: a node again and again, until it is enough."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from toolnexus.core.options import count
from toolnexus.core.result import Limit
from toolnexus.errors import ConfigError
from toolnexus.runtime.context import RunContext
from toolnexus.runtime.hooks import settled
from toolnexus.workflow.node import Node, Stopped, checked, decided, named, visit

T = TypeVar("T")


class Loop(Node[T, T]):
    """Runs `node` on its own output until `until(output)` is true; that output comes out.

    At `max_rounds` without it the workflow is `incomplete` with the last output, never a silent success.
    `until` may be async, and is asked once after each round.
    """

    def __init__(
        self,
        node: Node[T, T],
        until: Callable[[T], bool | Awaitable[bool]],
        *,
        max_rounds: int,
        name: str = "loop",
    ) -> None:
        """Raises `ConfigError`."""
        self._node: Node[T, T] = checked(node, "Loop")
        if not callable(until):
            raise ConfigError(f"Loop: until={until!r}: give a function of the output")
        count("Loop: max_rounds", max_rounds, 1)
        self._until = until
        self._max_rounds = max_rounds
        self.name = named(name, "Loop")

    async def run(self, input: T, ctx: RunContext) -> T:
        value = input
        for n in range(self._max_rounds):
            value = await visit(self._node, value, ctx, str(n), f"{self._node.name}[{n}]")
            if await decided(ctx, f"{n}?", self._enough, value):
                return value
        frame = ctx.frame
        limit: Limit = frame.hit(ctx.run, "max_rounds", self._max_rounds)
        raise Stopped(limit, value, "")

    async def _enough(self, value: T) -> bool:
        return bool(await settled(self._until(value)))

    @property
    def children(self) -> Sequence[tuple[str, Node[Any, Any]]]:
        return ((f"at most {self._max_rounds} times", self._node),)
