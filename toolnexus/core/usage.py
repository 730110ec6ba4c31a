"""Amounts (`Usage`), what they cost (`Price`) and ceilings (`Budget`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from toolnexus.core.options import count, number, seconds
from toolnexus.core.values import frozen, value


@value(kw_only=True)
class Usage:
    """What model requests cost, in tokens. Additive and immutable."""

    prompt_tokens: int = 0
    """All input tokens, cached ones included."""
    completion_tokens: int = 0
    """All output tokens, reasoning included."""
    cached_tokens: int = 0
    """The part of `prompt_tokens` that was read from a prompt cache."""
    cache_write_tokens: int = 0
    """The part of `prompt_tokens` that was written to a prompt cache."""
    reasoning_tokens: int = 0
    """The part of `completion_tokens` that was reasoning, where the endpoint says so."""
    requests: int = 0
    estimated: bool = False
    """True when an endpoint reported nothing for a request and we counted characters instead."""
    cost: float | None = None
    """In US dollars; None when nobody asked for prices, or when one of the models has none that is known."""

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def of_one_request(self) -> Usage:
        """The same amounts, as those of one request."""
        return Usage(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cached_tokens=self.cached_tokens,
            cache_write_tokens=self.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens,
            requests=1,
            estimated=self.estimated,
            cost=self.cost,
        )

    @property
    def _is_nothing(self) -> bool:
        return not (self.requests or self.total_tokens)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            requests=self.requests + other.requests,
            estimated=self.estimated or other.estimated,
            cost=_sum([usage.cost for usage in (self, other) if not usage._is_nothing]),
        )

    def to_json(self) -> dict[str, int | float | bool]:
        """Wire data in camelCase, `totalTokens` included."""
        out: dict[str, int | float | bool] = {
            "promptTokens": self.prompt_tokens,
            "completionTokens": self.completion_tokens,
            "totalTokens": self.total_tokens,
            "cachedTokens": self.cached_tokens,
            "cacheWriteTokens": self.cache_write_tokens,
            "reasoningTokens": self.reasoning_tokens,
            "requests": self.requests,
        }
        if self.estimated:
            out["estimated"] = True
        if self.cost is not None:
            out["cost"] = self.cost
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Usage:
        """The amounts that `to_json` wrote. Raises `KeyError` for anything else."""
        return Usage(
            prompt_tokens=data["promptTokens"],
            completion_tokens=data["completionTokens"],
            cached_tokens=data["cachedTokens"],
            cache_write_tokens=data["cacheWriteTokens"],
            reasoning_tokens=data["reasoningTokens"],
            requests=data["requests"],
            estimated=bool(data.get("estimated", False)),
            cost=data.get("cost"),
        )


def _sum(costs: Iterable[float | None]) -> float | None:
    """All together; None where one is unknown, and where there is none."""
    total: float | None = None
    for cost in costs:
        if cost is None:
            return None
        total = cost if total is None else total + cost
    return total


@value()
class UsageRow:
    """What one run spent on one model."""

    path: tuple[str, ...]
    agent: str
    model: str
    usage: Usage


@value(kw_only=True)
class TreeUsage(Usage):
    """The usage of a run and everything below it, which can be told apart again."""

    rows: tuple[UsageRow, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[UsageRow]) -> TreeUsage:
        """The sum of `rows`, with the rows kept."""
        kept = tuple(rows)
        prompt = completion = cached = written = reasoning = requests = 0
        estimated = False
        for row in kept:
            usage = row.usage
            prompt += usage.prompt_tokens
            completion += usage.completion_tokens
            cached += usage.cached_tokens
            written += usage.cache_write_tokens
            reasoning += usage.reasoning_tokens
            requests += usage.requests
            estimated = estimated or usage.estimated
        return cls(
            rows=kept,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cached_tokens=cached,
            cache_write_tokens=written,
            reasoning_tokens=reasoning,
            requests=requests,
            estimated=estimated,
            cost=_sum([row.usage.cost for row in kept]),
        )

    def by(self, key: Literal["agent", "model", "path"]) -> dict[str, Usage]:
        """The same usage split by agent name, model name or run path (segments joined by `/`)."""
        if key not in ("agent", "model", "path"):
            raise ValueError(f"usage can be split by 'agent', 'model' or 'path', not {key!r}")
        out: dict[str, Usage] = {}
        for row in self.rows:
            name = "/".join(row.path) if key == "path" else getattr(row, key)
            out[name] = out.get(name, Usage()) + row.usage
        return out


@frozen(kw_only=True)
class Price:
    """What a model costs, in US dollars per million tokens."""

    input: float
    output: float
    cached: float | None = None
    """For input that was read from a prompt cache; None: like other input."""
    cache_write: float | None = None
    """For input that was written to a prompt cache; None: like other input."""

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached", "cache_write"):
            if getattr(self, name) is not None or name in ("input", "output"):
                number(f"price {name}", getattr(self, name), "US dollars per million tokens")

    def of(self, usage: Usage) -> float:
        """What `usage` costs, in US dollars."""
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        fresh = usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens
        dear = (
            max(fresh, 0) * self.input
            + usage.cached_tokens * cached
            + usage.cache_write_tokens * written
            + usage.completion_tokens * self.output
        )
        return dear / 1_000_000


_NO_CEILING = ", or None for no ceiling"


@frozen(kw_only=True)
class Budget:
    """Ceilings for one run and everything below it; None means no ceiling here.

    Count limits (`requests`, `tool_calls`) are exact under any fan-out. `tokens` and `cost` are checked
    before each request: what is over at most is the requests in flight. `seconds` running out
    cancels what runs. `cost` is in US dollars, and a model without a known price is not asked then.
    """

    requests: int | None = None
    tokens: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None
    cost: float | None = None
    concurrency: int = 8
    """How many sub-agents are active at once in the whole tree. Only the client's counts."""

    def __post_init__(self) -> None:
        for name in ("requests", "tokens", "tool_calls"):
            if getattr(self, name) is not None:
                count(f"budget {name}", getattr(self, name), 0, _NO_CEILING)
        if self.seconds is not None:
            seconds("budget seconds", self.seconds, _NO_CEILING)
        if self.cost is not None:
            number("budget cost", self.cost, f"US dollars{_NO_CEILING}")
        count("budget concurrency", self.concurrency, 1)
