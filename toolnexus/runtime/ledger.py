"""Who may spend, and what was spent. Every method is synchronous, so it is atomic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import add
from typing import Any

from toolnexus.core.usage import Budget, TreeUsage, Usage, UsageRow
from toolnexus.errors import LimitReached

Path = tuple[str, ...]


class Meter:
    """The counters behind one `Budget`: what its run and everything below have claimed."""

    __slots__ = ("budget", "cost", "requests", "scope", "tokens", "tool_calls")

    def __init__(self, budget: Budget, scope: Path) -> None:
        self.budget = budget
        self.scope = scope
        self.requests = 0
        self.tokens = 0
        self.tool_calls = 0
        self.cost = 0.0

    def check_spent(self) -> None:
        """Raises `LimitReached` when no tokens or dollars are left."""
        budget = self.budget
        if budget.tokens is not None and self.tokens >= budget.tokens:
            raise LimitReached("tokens", budget.tokens, self.scope)
        if budget.cost is not None and self.cost >= budget.cost:
            raise LimitReached("cost", budget.cost, self.scope)


class Tally:
    """What one run used of one model so far."""

    __slots__ = ("cached", "completion", "cost", "estimated", "prompt", "reasoning", "requests", "written")

    def __init__(self) -> None:
        self.prompt = self.completion = self.cached = self.written = self.reasoning = self.requests = 0
        self.estimated = False
        self.cost: float | None = 0.0

    def add(self, usage: Usage) -> None:
        """Count one request, which used `usage`."""
        self.prompt += usage.prompt_tokens
        self.completion += usage.completion_tokens
        self.cached += usage.cached_tokens
        self.written += usage.cache_write_tokens
        self.reasoning += usage.reasoning_tokens
        self.requests += 1
        self.estimated = self.estimated or usage.estimated
        if self.cost is not None:
            self.cost = None if usage.cost is None else self.cost + usage.cost

    @classmethod
    def of(cls, usage: Usage) -> Tally:
        """A tally that stands at `usage`."""
        tally = cls()
        tally.add(usage)
        tally.requests = usage.requests
        return tally

    @property
    def usage(self) -> Usage:
        return Usage(
            prompt_tokens=self.prompt,
            completion_tokens=self.completion,
            cached_tokens=self.cached,
            cache_write_tokens=self.written,
            reasoning_tokens=self.reasoning,
            requests=self.requests,
            estimated=self.estimated,
            cost=self.cost,
        )


class Ledger:
    """Usage of one run, below its parent's.

    Countable units are claimed before the work is awaited, in every budget up the tree or in
    none, so that a fan-out of any width cannot pass a ceiling. Tokens and cost are known only afterwards:
    what is over at most is the requests in flight.
    """

    __slots__ = ("agent", "by_model", "children", "meters", "path", "tool_calls")

    def __init__(
        self, path: Path, agent: str, budgets: Iterable[Budget] = (), parent: Ledger | None = None
    ) -> None:
        self.path = path
        self.agent = agent
        self.tool_calls = 0
        self.by_model: dict[str, Tally] = {}
        self.children: list[Ledger] | tuple[()] = ()
        inherited = parent.meters if parent is not None else ()
        own = [Meter(budget, path) for budget in budgets]
        self.meters: tuple[Meter, ...] = (*inherited, *own) if own else inherited
        if parent is not None:
            beside = parent.children = parent.children or []
            beside.append(self)

    def reserve_request(self) -> None:
        """Claim one model request. Raises `LimitReached`, outermost budget first, claiming nothing."""
        for meter in self.meters:
            budget = meter.budget
            if budget.requests is not None and meter.requests >= budget.requests:
                raise LimitReached("requests", budget.requests, meter.scope)
            meter.check_spent()
        for meter in self.meters:
            meter.requests += 1

    def check_spent(self) -> None:
        """Raises `LimitReached`, outermost budget first, where no tokens or dollars are left."""
        for meter in self.meters:
            meter.check_spent()

    def return_request(self) -> None:
        """Give back the claim on a request that was never sent."""
        for meter in self.meters:
            meter.requests -= 1

    def reserve_tool_call(self) -> None:
        """Claim one tool call. Raises `LimitReached`, outermost budget first, claiming nothing."""
        for meter in self.meters:
            if meter.budget.tool_calls is not None and meter.tool_calls >= meter.budget.tool_calls:
                raise LimitReached("tool_calls", meter.budget.tool_calls, meter.scope)
        for meter in self.meters:
            meter.tool_calls += 1
        self.tool_calls += 1

    def record(self, model: str, usage: Usage) -> None:
        """Count one request, which used `usage`."""
        tally = self.by_model.get(model)
        if tally is None:
            tally = self.by_model[model] = Tally()
        tally.add(usage)
        for meter in self.meters:
            meter.tokens += usage.total_tokens
            if usage.cost is not None:
                meter.cost += usage.cost

    @property
    def bounds_cost(self) -> bool:
        """Whether a budget here or above has a ceiling of cost."""
        return any(meter.budget.cost is not None for meter in self.meters)

    def restored(self, path: Path) -> Ledger:
        """The part of a run below this one that is there already, because it goes on."""
        return next(child for child in self.children if child.path == path)

    def bound_by(self, budgets: Iterable[Budget], parent: Ledger | None) -> None:
        """Hold a restored part to these budgets and to those above; what was spent before counts."""
        inherited = parent.meters if parent is not None else ()
        mine = [Meter(budget, self.path) for budget in budgets]
        for meter in mine:
            usage = self.usage
            meter.requests, meter.tokens = usage.requests, usage.total_tokens
            meter.tool_calls = self.tool_calls + self.tool_calls_below
            meter.cost = sum(row.usage.cost or 0.0 for row in usage.rows)
        self.meters = (*inherited, *mine)

    def to_json(self) -> dict[str, Any]:
        """Of this run and everything below it, as JSON values."""
        return {
            "path": list(self.path),
            "agent": self.agent,
            "toolCalls": self.tool_calls,
            "models": {name: tally.usage.to_json() for name, tally in self.by_model.items()},
            "children": [child.to_json() for child in self.children],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], parent: Ledger | None = None) -> Ledger:
        """What `to_json` wrote, with everything below; no budget holds it yet."""
        ledger = cls(tuple(data["path"]), data["agent"], parent=parent)
        ledger.tool_calls = data["toolCalls"]
        for name, usage in data["models"].items():
            ledger.by_model[name] = Tally.of(Usage.from_json(usage))
        for child in data["children"]:
            cls.from_json(child, ledger)
        return ledger

    @property
    def own_usage(self) -> Usage:
        usages = [tally.usage for tally in self.by_model.values()]
        return reduce(add, usages) if usages else Usage()

    @property
    def usage(self) -> TreeUsage:
        """Of this run and everything below it."""
        return TreeUsage.of(self._rows())

    @property
    def tool_calls_below(self) -> int:
        return sum(child.tool_calls + child.tool_calls_below for child in self.children)

    def _rows(self) -> Iterator[UsageRow]:
        for model, tally in self.by_model.items():
            yield UsageRow(self.path, self.agent, model, tally.usage)
        for child in self.children:
            yield from child._rows()
