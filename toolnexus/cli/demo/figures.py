"""What a run of the demo measured, taken from its events."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolnexus.cli.view.words import plural
from toolnexus.core.events import Event, RunFinished, RunStarted, ToolFinished
from toolnexus.core.result import RunResult


@dataclass(slots=True)
class Figures:
    """Feed it every event of one run."""

    spans: dict[tuple[str, ...], list[float]] = field(default_factory=dict[tuple[str, ...], list[float]])
    """When each run began and ended, in seconds since the epoch."""
    read: int = 0
    """Bytes that tools gave to the runs below the top one."""
    seen: int = 0
    """Characters that came up from them to the top run."""

    def feed(self, event: Event) -> None:
        """Take one event."""
        match event:
            case RunStarted():
                self.spans[event.path] = [event.time, event.time]
            case RunFinished():
                self.spans[event.path][1] = event.time
            case ToolFinished() if len(event.path) > 1:
                self.read += len(event.result.output.encode("utf-8", "replace"))
            case ToolFinished() if event.name == "task":
                self.seen += len(event.result.output)
            case _:
                pass

    @property
    def wall(self) -> float:
        """Seconds from the start of the top run to its end."""
        return sum(end - start for path, (start, end) in self.spans.items() if len(path) == 1)

    @property
    def one_after_the_other(self) -> float:
        """Seconds that it would have taken with one child at a time."""
        children = sorted(span for path, span in self.spans.items() if len(path) == 2)
        at_once, until = 0.0, 0.0
        for start, end in children:
            at_once += max(end - max(start, until), 0.0)
            until = max(until, end)
        return self.wall - at_once + sum(end - start for start, end in children)

    def lines(self, result: RunResult, mark: str) -> list[str]:
        """Label and value of each figure; `mark` says what kind of model the tokens are of."""
        names = [path[-1].partition(".")[0] for path in self.spans]
        calls = result.tool_calls + result.sub_agent_tool_calls
        tokens = ", ".join(
            f"{agent} {usage.total_tokens:,}" for agent, usage in result.usage.by("agent").items()
        )
        return [
            f"agents   {len(names)} ({', '.join(names)}), {plural(calls, 'tool call')}",
            f"time     {self.wall:.1f} s at once, {self.one_after_the_other:.1f} s one after the other",
            f"context  the children took in {self.read:,} bytes, main saw {self.seen:,} characters",
            f"tokens   {tokens} ({mark})",
        ]
