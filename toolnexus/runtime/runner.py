"""The port through which whatever runs starts others below itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from toolnexus.core.messages import Message
from toolnexus.core.result import RunResult

if TYPE_CHECKING:
    from toolnexus.runtime.context import RunContext, Runnable


class Runner(Protocol):
    """The frame around every run; it alone creates child contexts."""

    async def run(
        self,
        target: Runnable,
        input: Any,
        *,
        parent: RunContext,
        key: str,
        delegated: bool = False,
        resumed: Mapping[str, Any] | None = None,
        segment: str | None = None,
        history: Sequence[Message] = (),
        continues: tuple[str, ...] | None = None,
    ) -> RunResult:
        """Run `target` below `parent` and return its result, whatever way it ended.

        `key` identifies the run among its siblings; `segment` is its name, where the frame above was asked
        for one before. `delegated`: a model started it, so it counts in depth and waits for a slot.
        `resumed`: the point where it stood, when it goes on. `history`: what was said before;
        `continues`: the path of the run that said it. Raises nothing but `CancelledError`.
        """
        ...
