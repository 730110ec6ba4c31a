"""What a run of a graph needs of whoever runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import toolnexus.graph
from toolnexus.core.usage import Usage


class Interrupt(NamedTuple):
    """Why a run is to stop where it can go on.

    `cause` is `user_cancel`, `user_input`, `host_shutdown` or `custom`, `detail` a free text.
    """

    cause: str = "custom"
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """Which run this is. `attempt` counts from 1; ids that there are none of are empty."""

    run_id: str
    agent_id: str = ""
    task_id: str = ""
    context_id: str = ""
    """The conversation."""
    parent_run_id: str = ""
    attempt: int = 1


class Host(Protocol):
    """Takes the events, checkpoints and usage of a run, and answers its questions.

    Besides these it may have `drain_steer() -> list[Message]` (take all that somebody wants said to the run
    in flight; without it `drain_steer` is not available), `event_bus`, for `stream` in scripts,
    `call_record`, a `CallRecord` that outlives the process, and `listening` and `keeping`: false when nobody
    wants events, or checkpoints.
    """

    async def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        """Take one event. A failure is logged, but for the last one of a run."""
        ...

    async def ask_user(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Answer `{parts, schema?, source?, metadata?}` with `{parts, metadata}`.

        Raises `GraphRunError` (not_available) to refuse, `Interrupted("user_input")` to answer later.
        """
        ...

    async def checkpoint(self, checkpoint: toolnexus.graph.Checkpoint) -> None:
        """Keep where the run stands. A failure is logged, unless checkpoints are required."""
        ...

    async def report_usage(self, usage: Usage) -> None:
        """Take the tokens of one call. Raises `GraphRunError` (budget_exceeded) to end the run."""
        ...

    def poll_interrupt(self) -> Interrupt | None:
        """The one interrupt that is pending, or None."""
        ...
