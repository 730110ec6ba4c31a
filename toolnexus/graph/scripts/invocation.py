"""One execution of a script node, as the functions of its globals see it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolnexus.graph.scripts.runtime import Handle, LuaReturns, Method, ScriptError

if TYPE_CHECKING:
    from toolnexus.graph.board import Board
    from toolnexus.graph.context import NodeContext
    from toolnexus.graph.scripts.runtime import ScriptRuntime
    from toolnexus.graph.services import Services


logger = logging.getLogger("toolnexus.graph")

MOST_HANDLES = 256
"""How many objects with functions of their own one script may get."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a script's globals, where Lua is to get more of it than its value.

    `call` takes and gives JSON values (or gives a `Handle`), and may be async; None: the script runtime
    itself does it. `lua`: what the call returns in Lua, see `LuaReturns`.
    """

    call: Callable[..., Any] | None
    lua: LuaReturns = "value"


class Invocation:
    """What a provider of bindings builds the globals of one execution from. Valid until the script ends."""

    def __init__(self, ctx: NodeContext, board: Board, runtime: ScriptRuntime, name: str) -> None:
        self.ctx = ctx
        """The node that runs: its identity, its run, its host."""
        self.board = board
        """The board of the node; in a parallel wave that of its branch."""
        self.runtime = runtime
        """The runtime that executes the script."""
        self.name = name
        """What the script is called in errors."""
        self.closing = AsyncExitStack()
        """What is closed when the script ends, whatever way."""
        self.handles: dict[str, Function] = {}
        """The functions of the objects that the script got, by their paths."""
        self._opened = 0

    @property
    def services(self) -> Services:
        """What the node may use."""
        return self.ctx.services

    def handle(self, methods: Mapping[str, Function], close: Callable[[], Awaitable[Any]]) -> Handle:
        """An object for the script with `methods`. `close` is called when the script ends.

        Raises `ScriptError` (not_available) when the script has got too many.
        """
        self.closing.push_async_callback(self._close, close)
        self._opened += 1
        if self._opened > MOST_HANDLES:
            raise ScriptError("not_available", f"a script may open {MOST_HANDLES} streams and the like")
        id = f"@{self._opened}"
        self.handles.update((f"{id}.{name}", function) for name, function in methods.items())
        return Handle(id, [Method(name, function.lua) for name, function in methods.items()])

    async def _close(self, close: Callable[[], Awaitable[Any]]) -> None:
        try:
            await close()
        except Exception as error:  # the script has done its work
            logger.warning("node %r: what its script opened was not closed: %s", self.ctx.node_id, error)
