"""What one client has done so far, in plain numbers.

Every method is synchronous and runs on the client's event loop, so nothing is lost or counted twice.
`telemetry/exposition.py` shows it; that may happen on any thread.
"""

from __future__ import annotations

from bisect import bisect_left

from toolnexus.core.usage import Usage

BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Upper bounds in seconds, those that OpenTelemetry names for durations of generative AI."""

MOST_VALUES = 500
"""How many values one label takes; names may come from servers and from code that makes agents."""

OTHER = "(other)"
"""The label of everything beyond; no tool can have such a name."""

UNKNOWN = "(unknown)"
"""The label of all tools that do not exist: a model can invent any number of names."""


class Timings:
    """How often something was done, and how long it took."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS) + 1)
        """How many took longer than the bound before and no longer than this one; the last: beyond all."""
        self.seconds = 0.0
        """All together."""

    def add(self, seconds: float) -> None:
        """Count one more."""
        self.buckets[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds


class Counts:
    """The counters of one client, each by the values of its labels."""

    __slots__ = ("_seen", "requests", "run_errors", "sub_agents", "tokens", "tool_calls")

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {"model": set(), "tool": set(), "agent": set()}
        self.requests: dict[tuple[str, str], Timings] = {}
        """By model and status."""
        self.tokens: dict[str, int] = {}
        self.tool_calls: dict[tuple[str, str, bool], Timings] = {}
        """By tool, source, and whether it failed."""
        self.run_errors: dict[str, int] = {}
        """By model."""
        self.sub_agents: dict[tuple[str, str], int] = {}
        """By agent and status."""

    def request(self, model: str, status: str, seconds: float, usage: Usage | None = None) -> None:
        """Count one model request, whatever retries it took. `status`: `ok`, `error` or `cancelled`."""
        timings = self.requests.get((model, status))
        if timings is None:
            timings = self.requests.setdefault((self._label("model", model), status), Timings())
        timings.add(seconds)
        if usage is None:
            return
        tokens = self.tokens
        tokens["prompt"] = tokens.get("prompt", 0) + usage.prompt_tokens
        tokens["completion"] = tokens.get("completion", 0) + usage.completion_tokens
        if usage.cached_tokens:
            tokens["cached"] = tokens.get("cached", 0) + usage.cached_tokens
        if usage.cache_write_tokens:
            tokens["cache_write"] = tokens.get("cache_write", 0) + usage.cache_write_tokens
        if usage.reasoning_tokens:
            tokens["reasoning"] = tokens.get("reasoning", 0) + usage.reasoning_tokens

    def tool(self, name: str, source: str, is_error: bool, seconds: float) -> None:
        """Count one call of a tool."""
        timings = self.tool_calls.get((name, source, is_error))
        if timings is None:
            timings = self.tool_calls.setdefault((self._label("tool", name), source, is_error), Timings())
        timings.add(seconds)

    def unknown_tool(self) -> None:
        """Count one call of a tool that is not there, or was not offered."""
        self.tool_calls.setdefault((UNKNOWN, UNKNOWN, True), Timings()).add(0.0)

    def failed_run(self, model: str | None) -> None:
        """Count one run that ended in an error. `model`: the one that it asked; None: it asked none."""
        label = UNKNOWN if model is None else self._label("model", model)
        self.run_errors[label] = self.run_errors.get(label, 0) + 1

    def sub_agent(self, agent: str, status: str) -> None:
        """Count one run below another that has ended."""
        label = (self._label("agent", agent), status)
        self.sub_agents[label] = self.sub_agents.get(label, 0) + 1

    def _label(self, name: str, value: str) -> str:
        """`value`, or `OTHER` when the label `name` has enough values."""
        seen = self._seen[name]
        if value in seen:
            return value
        if len(seen) >= MOST_VALUES:
            return OTHER
        seen.add(value)
        return value
