"""Counters as Prometheus text (exposition format 0.0.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from toolnexus.runtime.counts import BUCKETS, UNKNOWN, Counts, Timings

_BOUNDS = (*map(str, BUCKETS), "+Inf")
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Values = tuple[str, ...]


def exposition(counts: Counts, redact: Callable[[str], str]) -> str:
    """All of `counts`; names and types also where nothing was counted yet."""
    requests = {**counts.requests}  # copies: another thread may count meanwhile
    tool_calls = {**counts.tool_calls}
    timed = {key: timings for key, timings in tool_calls.items() if key[0] != UNKNOWN}

    def labels(names: Values, values: Values) -> str:
        pairs = zip(names, values, strict=True)
        return ",".join([f'{name}="{redact(value).translate(_ESCAPED)}"' for name, value in pairs])

    def counter(name: str, help: str, names: Values, numbers: Mapping[Values, int]) -> Iterator[str]:
        yield from (f"# HELP {name} {help}", f"# TYPE {name} counter")
        for values, number in sorted(numbers.items()):
            yield f"{name}{{{labels(names, values)}}} {number}"

    def histogram(
        name: str, help: str, label: str, timings: Iterable[tuple[Values, Timings]]
    ) -> Iterator[str]:
        yield from (f"# HELP {name} {help}", f"# TYPE {name} histogram")
        for value, (buckets, seconds) in sorted(_by_first(timings).items()):
            shown, numbers = labels((label,), (value,)), list(accumulate(buckets))
            for bound, number in zip(_BOUNDS, numbers, strict=True):
                yield f'{name}_bucket{{{shown},le="{bound}"}} {number}'
            yield f"{name}_sum{{{shown}}} {seconds!r}"
            yield f"{name}_count{{{shown}}} {numbers[-1]}"

    lines = [
        *counter(
            "toolnexus_llm_requests_total",
            "Model requests that ended; retries are within one.",
            ("model", "status"),
            {key: sum(timings.buckets) for key, timings in requests.items()},
        ),
        *counter(
            "toolnexus_llm_tokens_total",
            "Tokens: prompt and completion; cached, cache_write and reasoning are parts of these.",
            ("type",),
            {(type,): number for type, number in {**counts.tokens}.items()},
        ),
        *histogram(
            "toolnexus_llm_request_duration_seconds",
            "Time from a model request to its whole reply, retries included.",
            "model",
            requests.items(),
        ),
        *counter(
            "toolnexus_tool_calls_total",
            "Tool calls that ended.",
            ("tool", "source", "is_error"),
            {
                (tool, source, str(is_error).lower()): sum(timings.buckets)
                for (tool, source, is_error), timings in tool_calls.items()
            },
        ),
        *histogram(
            "toolnexus_tool_duration_seconds",
            "Time that a tool call took, hooks and questions included.",
            "tool",
            [((tool,), timings) for (tool, _, _), timings in timed.items()],
        ),
        *counter(
            "toolnexus_run_errors_total",
            "Runs that failed.",
            ("model",),
            {(model,): number for model, number in {**counts.run_errors}.items()},
        ),
        *counter(
            "toolnexus_sub_agents_total",
            "Runs below another run that ended.",
            ("agent", "status"),
            {**counts.sub_agents},
        ),
    ]
    return "\n".join(lines) + "\n"


def _by_first(timings: Iterable[tuple[Values, Timings]]) -> dict[str, tuple[list[int], float]]:
    """Added up by the first label."""
    out: dict[str, tuple[list[int], float]] = {}
    for (first, *_), more in timings:
        buckets, seconds = out.get(first, ([0] * len(_BOUNDS), 0.0))
        out[first] = [a + b for a, b in zip(buckets, more.buckets, strict=True)], seconds + more.seconds
    return out
