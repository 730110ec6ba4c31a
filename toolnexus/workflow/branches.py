"""Parallel and FanOut: several nodes at once, or one node over many inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal, TypeVar, cast, overload

from toolnexus.core.options import count
from toolnexus.errors import ConfigError, RunError
from toolnexus.runtime.concurrency import run_all
from toolnexus.runtime.context import SCRATCHPAD, RunContext
from toolnexus.runtime.snapshot import Waiting
from toolnexus.workflow.node import PLACE, Node, Stopped, Suspended, checked, named, visit
from toolnexus.workflow.scratchpad import Scratchpad

In = TypeVar("In")
Out = TypeVar("Out")
I = TypeVar("I", contravariant=True)  # noqa: E741
O = TypeVar("O", covariant=True)  # noqa: E741

OnError = Literal["fail", "collect"]


class Parallel(Node[I, O]):
    """All nodes at once on the same input; their outputs come out as a list, in node order.

    `on_error`: with `"fail"` the first failure cancels the others and is raised as itself; with `"collect"`
    a failed branch has its exception in the list: a `RunError` with its words after a wait. A
    branch that waits for an answer lets the others end.
    """

    @overload
    def __init__(
        self: Parallel[In, list[Out]],
        *nodes: Node[In, Out],
        on_error: Literal["fail"] = "fail",
        name: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Parallel[In, list[Out | Exception]],
        *nodes: Node[In, Out],
        on_error: Literal["collect"],
        name: str = ...,
    ) -> None: ...
    def __init__(self, *nodes: Node[Any, Any], on_error: OnError = "fail", name: str = "parallel") -> None:
        """Raises `ConfigError`."""
        if not nodes:
            raise ConfigError("Parallel: give at least one node")
        self._nodes = tuple([checked(node, f"Parallel: node {n}") for n, node in enumerate(nodes)])
        self._collect = _collects("Parallel", on_error)
        self.name = named(name, "Parallel")

    async def run(self, input: I, ctx: RunContext) -> O:
        branches = [(node, input, node.name) for node in self._nodes]
        return cast("O", await _run_branches(ctx, branches, len(branches), self._collect))

    @property
    def children(self) -> Sequence[tuple[str, Node[Any, Any]]]:
        return [("", node) for node in self._nodes]


class FanOut(Node[I, O]):
    """One node on every item of a list; the outputs come out in the order of the items.

    At most `width` items are under way at once (None: all). `on_error` is that of `Parallel`.
    """

    @overload
    def __init__(
        self: FanOut[Iterable[In], list[Out]],
        node: Node[In, Out],
        *,
        width: int | None = None,
        on_error: Literal["fail"] = "fail",
        name: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: FanOut[Iterable[In], list[Out | Exception]],
        node: Node[In, Out],
        *,
        width: int | None = None,
        on_error: Literal["collect"],
        name: str = ...,
    ) -> None: ...
    def __init__(
        self,
        node: Node[Any, Any],
        *,
        width: int | None = None,
        on_error: OnError = "fail",
        name: str = "fan_out",
    ) -> None:
        """Raises `ConfigError`."""
        self._node = checked(node, "FanOut")
        if width is not None:
            count("FanOut: width", width, 1, ", or None for all at once")
        self._width = width
        self._collect = _collects("FanOut", on_error)
        self.name = named(name, "FanOut")

    async def run(self, input: I, ctx: RunContext) -> O:
        if isinstance(input, (str, bytes)) or not isinstance(input, Iterable):
            kind = type(cast("object", input)).__name__
            raise RunError(f"fan-out {self.name!r}: the input is {kind}, no list of items")
        node = self._node
        branches = [(node, item, f"{node.name}[{n}]") for n, item in enumerate(cast("Iterable[Any]", input))]
        return cast("O", await _run_branches(ctx, branches, self._width or len(branches), self._collect))

    @property
    def children(self) -> Sequence[tuple[str, Node[Any, Any]]]:
        return ((f"each, {self._width} at once" if self._width else "each", self._node),)


Branch = tuple[Node[Any, Any], Any, str]


async def _run_branches(ctx: RunContext, branches: Sequence[Branch], width: int, collect: bool) -> list[Any]:
    """Every branch with a fork of the pad; then the forks are merged in order."""
    place, pad = ctx.host[PLACE], ctx.host[SCRATCHPAD]
    pads, progress = place.progress.pads, place.progress
    outputs: list[Any] = [None] * len(branches)
    forks: list[Scratchpad] = [pad] * len(branches)
    waiting: dict[str, Waiting] = {}
    left = iter(range(len(branches)))

    async def one(n: int) -> Any:
        id, (node, input, name), context = f"{place.id}.{n}", branches[n], ctx.fork()
        fork = forks[n] = context.host[SCRATCHPAD]
        if isinstance(kept := pads.get(id), dict):
            fork.restore(cast("dict[str, Any]", kept))
        pads[id] = fork
        if (failed := progress.stored.get(f"{id}!")) is not None:
            return RunError(failed)
        try:
            return await visit(node, input, context, str(n), name)
        except Suspended as suspended:  # the others go on: what can be done is done
            waiting.update(suspended.waiting)
        except Exception as failure:
            if not collect:
                raise
            error = failure.error if isinstance(failure, Stopped) else failure
            progress.done[f"{id}!"] = f"{type(error).__name__}: {error}"
            return error

    async def in_turn() -> None:
        for n in left:
            outputs[n] = await one(n)

    if width < len(branches):
        await run_all([in_turn] * width)
    else:
        outputs = await run_all([partial(one, n) for n in range(len(branches))])
    if waiting:
        raise Suspended(dict(sorted(waiting.items(), key=lambda item: _position(item[0]))))
    for n in range(len(branches)):
        del pads[f"{place.id}.{n}"]
    cast("Scratchpad", pad).join(forks)
    return outputs


def _position(id: str) -> tuple[int, ...]:
    """By place in the tree, so that questions come in the same order every time."""
    return tuple([int(part) if part.isdigit() else -1 for part in id.split(".")])


def _collects(where: str, on_error: Any) -> bool:
    if on_error not in ("fail", "collect"):
        raise ConfigError(f"{where}: on_error={on_error!r} must be 'fail' or 'collect'")
    return on_error == "collect"
