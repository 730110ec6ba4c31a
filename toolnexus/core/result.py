"""RunResult: what a run gave, whatever way it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from toolnexus.core.messages import Message
from toolnexus.core.suspension import Request
from toolnexus.core.usage import TreeUsage, Usage
from toolnexus.core.values import frozen
from toolnexus.errors import LimitReached, Suspended

Status = Literal["done", "pending", "incomplete", "error"]


@frozen(kw_only=True)
class Limit:
    """One limit that stopped or refused something.

    `limit` is its name (`max_turns`, `requests`, `depth`, `max_sub_agents`, `length`, …), `value`
    the ceiling, `path` the run that met it, `scope` the run whose limit it is.
    """

    limit: str
    value: float | None
    path: tuple[str, ...]
    scope: tuple[str, ...]

    def __str__(self) -> str:
        return self.limit if self.value is None else f"{self.limit} {self.value:g}"


@frozen(kw_only=True)
class RunResult:
    """What a run gave.

    `done`: it came to a natural end. `incomplete`: a limit stopped or refused something; the work
    so far is here. `pending`: it waits for answers. `error`: it failed; only a child's result says
    so, the top-level run raises instead.
    """

    status: Status
    text: str
    """The last non-empty text of the model, or a sentence that says there was none."""
    output: Any = None
    """The value of the run: its text, a value of its `output_type` (None when it gave none that fits),
    or what a Runnable of its own kind returned."""
    limit: str | None = None
    """The name of the first limit that this run itself met."""
    limits_hit: tuple[Limit, ...] = ()
    """Every limit that this run or one below it met, in time order."""
    pending: tuple[Request, ...] = ()
    messages: tuple[Message, ...] = ()
    """This run's own transcript, every call answered. Never a child's."""
    tool_calls: int = 0
    """Tools that this run executed itself, `task` included."""
    sub_agent_tool_calls: int = 0
    """Tools that the runs below it executed."""
    sub_agents: tuple[RunResult, ...] = ()
    """The runs directly below this one, in start order, each with its own transcript."""
    turns: int = 0
    usage: TreeUsage = field(default_factory=TreeUsage)
    """Of this run and everything below it, failed runs included."""
    own_usage: Usage = field(default_factory=Usage)
    path: tuple[str, ...] = ()
    agent: str = ""
    """The name of what ran."""
    continues: tuple[str, ...] | None = None
    """The path of the run whose transcript it went on with; its messages begin with that."""
    pending_steer: int = 0
    """How many messages of `client.steer` a graph ended without taking; they are not delivered."""
    error: BaseException | None = None
    snapshot: Mapping[str, Any] | None = field(default=None, repr=False)
    """Of a pending run: JSON from which any process can go on with `client.resume`."""

    def raise_for_status(self) -> RunResult:
        """Itself when `done`.

        Raises `LimitReached` (incomplete), `Suspended` (pending) or the run's error.
        """
        if self.status == "done":
            return self
        failure: BaseException
        if self.status == "error" and self.error is not None:
            failure = self.error
        elif self.status == "pending":
            failure = Suspended(self.pending)
        else:
            hit = next((h for h in self.limits_hit if h.path == self.path), None)
            failure = (
                LimitReached(hit.limit, hit.value, hit.scope)
                if hit is not None
                else LimitReached(self.limit or "unknown", None, self.path)
            )
        if isinstance(failure, (LimitReached, Suspended)):
            failure.result = self
        raise failure
