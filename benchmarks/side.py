"""What can be measured: one way to do the work. Loads nothing that would count."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

Ask = Callable[[str], Awaitable[tuple[str, int]]]
Function = Callable[[int], Awaitable[str]]

LARGE = 5_000_000


async def noop(x: int) -> str:
    """Do nothing.

    Args:
        x: any number
    """
    return f"{x} ok"


def large() -> Function:
    """The same tool with five megabytes to tell; what it tells is made now."""
    whole = "0 ok\n" + f"{'x' * 63}\n" * (LARGE // 64)

    async def noop(x: int) -> str:
        """Give much.

        Args:
            x: any number
        """
        return whole

    return noop


@dataclass(frozen=True)
class Server:
    """An MCP server that a side is connected to."""

    call: Callable[[int], Awaitable[Any]]
    """Calls its first tool with `x`; the result has the text `tool0 x` in it."""
    ask: Ask | None = None
    """A run that is offered all of its tools, and `noop`."""


class Side(Protocol):
    """One way to do the work; it is made with the address, the most turns of a run, and the tool `noop`."""

    plan: Mapping[str, Any]
    """What every plan says for this side, see `script`."""

    async def ask(self, prompt: str) -> tuple[str, int]:
        """The final text and all tokens of one run."""
        ...

    async def delegate(self, prompt: str) -> tuple[str, int]:
        """The same for a parent that starts sub-agents."""
        ...

    def stream(self, prompt: str) -> AsyncIterator[str]:
        """The deltas of one streamed answer."""
        ...

    def mcp(self, command: str, arguments: list[str]) -> AbstractAsyncContextManager[Server]:
        """Connected to an MCP server over stdio, and all that it lists is ready to be called."""
        ...

    async def aclose(self) -> None:
        """Close what is open."""
        ...
