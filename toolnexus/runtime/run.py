"""`Run`: what one ask shares in its whole tree.

Above: the runner, the loop and the tools, which reach it through their context (`runtime/context.py`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.slots import Slots
from toolnexus.runtime.spill import Spill

if TYPE_CHECKING:
    from toolnexus.core.result import Limit
    from toolnexus.core.suspension import Answer
    from toolnexus.runtime.counts import Counts
    from toolnexus.runtime.emitter import Emitter
    from toolnexus.runtime.past import Kept
    from toolnexus.runtime.pricing import Pricing
    from toolnexus.runtime.runner import Runner
    from toolnexus.runtime.tracing import Tracing


class Run:
    """What one ask shares in its whole tree."""

    __slots__ = (
        "_id",
        "_trace_id",
        "answers",
        "approved",
        "counts",
        "emit",
        "kept",
        "limits",
        "max_depth",
        "max_sub_agents",
        "prices",
        "redact",
        "runner",
        "slots",
        "spill",
        "sub_agents",
        "tracing",
    )

    def __init__(
        self,
        *,
        runner: Runner,
        emit: Emitter | None = None,
        max_depth: int = 3,
        max_sub_agents: int = 16,
        concurrency: int = 8,
        redact: Redactor | None = None,
        spill: Spill | None = None,
        tracing: Tracing | None = None,
        counts: Counts | None = None,
        prices: Pricing | None = None,
    ) -> None:
        self._id: str | None = None
        self.runner = runner
        self.emit = emit
        """None: nobody reads, so no event object is made."""
        self.max_depth = max_depth
        self.max_sub_agents = max_sub_agents
        self.sub_agents = 0
        """How many runs a model has started so far."""
        self.slots = Slots(concurrency)
        self.redact = redact or Redactor()
        self.spill = spill or Spill()
        self.tracing = tracing
        """None: nobody follows, so no span is made."""
        self.counts = counts
        """None: outside a client nobody counts."""
        self.prices = prices
        """None: nobody wants to know what it costs."""
        self.limits: list[Limit] = []
        """Every limit met in the tree, in time order."""
        self.answers: Mapping[str, Answer] = {}
        """What was answered while the run waited, by request id."""
        self.kept: Kept | None = None
        """The transcripts of the runs below; None outside a conversation."""
        self.approved: set[str] = set()
        """The calls that somebody approved, by path, id and digest."""
        self._trace_id: str | None = None

    @property
    def id(self) -> str:
        if self._id is None:
            self._id = "run_" + os.urandom(8).hex()
        return self._id

    @property
    def trace_id(self) -> str:
        if self._trace_id is None:
            self._trace_id = os.urandom(16).hex()
        return self._trace_id
