"""Amounts (`Usage`) and ceilings (`Budget`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from toolnexus.core.options import count, seconds
from toolnexus.core.values import value


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
        )

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            requests=self.requests + other.requests,
            estimated=self.estimated or other.estimated,
        )

    def to_json(self) -> dict[str, int | bool]:
        """Wire data in camelCase, `totalTokens` included."""
        out: dict[str, int | bool] = {
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
        )


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


_NO_CEILING = ", or None for no ceiling"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Ceilings for one run and everything below it; None means no ceiling here.

    Count limits (`requests`, `tool_calls`) are exact under any fan-out. `tokens` is checked
    before each request: what is over at most is the requests in flight. `seconds` running out
    cancels what runs.
    """

    requests: int | None = None
    tokens: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None
    concurrency: int = 8
    """How many sub-agents are active at once in the whole tree. Only the client's counts."""

    def __post_init__(self) -> None:
        for name in ("requests", "tokens", "tool_calls"):
            if getattr(self, name) is not None:
                count(f"budget {name}", getattr(self, name), 0, _NO_CEILING)
        if self.seconds is not None:
            seconds("budget seconds", self.seconds, _NO_CEILING)
        count("budget concurrency", self.concurrency, 1)
