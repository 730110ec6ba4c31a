"""A model that plays a record: no network, no key."""

from __future__ import annotations

import asyncio
import copy
import os
import time

from toolnexus.core.messages import ReasoningPart
from toolnexus.core.model import ModelRequest, ModelResponse
from toolnexus.core.tools import ToolResult
from toolnexus.errors import ModelError
from toolnexus.models.base import Model
from toolnexus.models.records.difference import difference
from toolnexus.models.records.file import Exchange, Record, ToolRun, read_record
from toolnexus.models.records.form import Json, Views, error_of, reply_of, result_of, tool_forms, tools_view
from toolnexus.runtime.context import ToolContext

_GRACE = 1.0


class ReplayMismatch(ModelError):
    """A run asked something else than its record holds. The text shows where, and a diff."""


class ReplayingModel:
    """Answers from the record in the file `path`.

    A request is looked up by the path of its run and its turn, so parallel runs do not take each
    other's replies, and compared with the recorded one: any difference in system prompt, tools or
    messages is a `ReplayMismatch` with a diff, and so is every request behind it. The order of tools
    and the name of the model are not compared. Errors of the provider are raised as they were. As the
    model of a client it also stands for the models that agents name.

    Tools run for real, unless `hooks=[replay.tools]` has them answered from the record.
    Raises `ConfigError` for a file that is no record.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        record = read_record(path)
        self._play = _Play(record)
        self._name: str = record.header["model"]
        self.tools = ReplayedTools(self._play)
        """A hook for `Client(hooks=[…])`, the last one: calls are answered from the record."""

    @property
    def name(self) -> str:
        """The name of the recorded model."""
        return self._name

    @property
    def record(self) -> Record:
        """What is played."""
        return self._play.record

    @property
    def left(self) -> tuple[str, ...]:
        """The requests of the record that nobody has made yet: `run 'main', turn 2`."""
        return tuple([e.where for e in self._play.exchanges])

    def standing_for(self, spec: str | Model) -> ReplayingModel:
        """The same record, under the name of another model."""
        twin = copy.copy(self)
        twin._name = spec.partition(":")[2] or spec if isinstance(spec, str) else spec.name
        return twin

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer one request as it was answered. Raises `ReplayMismatch`, or the recorded error."""
        exchange = self._play.take(request)
        outcome = exchange.outcome
        if "cancelled" in outcome:
            await asyncio.sleep(self._play.until(outcome["cancelled"]) + _GRACE)
            raise ModelError(
                f"{exchange.where}: the recorded run was cancelled while it waited for this reply"
            )
        if "error" in outcome:
            raise error_of(outcome["error"])
        response = reply_of(outcome["reply"], exchange.model)
        if (sink := request.sink) is not None:
            for part in response.message.parts:
                if isinstance(part, ReasoningPart) and part.text:
                    sink.reasoning(part.text)
            if response.message.text:
                sink.text(response.message.text)
        return response

    async def aclose(self) -> None:
        """Nothing to close."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._play.record.where!r})"


class _Play:
    """How far a record has been played."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.exchanges: list[Exchange] = list(record.exchanges)
        self.tool_runs: list[ToolRun] = list(record.tool_runs)
        self._began: float | None = None
        self._failure: str | None = None

    def take(self, request: ModelRequest) -> Exchange:
        """The exchange that answers `request`. Raises `ReplayMismatch`."""
        if self._began is None:
            self._began = time.monotonic()
        if self._failure is not None:  # a child's mismatch is not the last word: its caller reads on
            raise ReplayMismatch(self._failure)
        views = request.memo.setdefault(self, Views(str))
        view: Json = {
            "system": request.system,
            "tools": tools_view(tool_forms(request.tools, str)),
            "messages": views.all(request.messages),
        }
        here = [e for e in self.exchanges if e.path == request.path and e.turn == request.turn]
        found = next((e for e in here if e.view == view), None)
        if found is None:
            raise self.failed(self._other(here[0], view) if here else self._missing(request))
        self.exchanges.remove(found)
        return found

    def take_tool(self, ctx: ToolContext) -> ToolRun:
        """What the call gave. Raises `ReplayMismatch`."""
        path, call_id = ctx.path, ctx.call_id
        found = next((r for r in self.tool_runs if (r.path, r.call_id) == (path, call_id)), None)
        if found is None:
            raise self.failed(
                f"the record {self.record.where!r} has no result of call {call_id!r} of {ctx.tool.name!r} in "
                f"run {'/'.join(path)!r}; record it with hooks=[recording.tools]"
            )
        self.tool_runs.remove(found)
        return found

    def until(self, seconds: float) -> float:
        """How long it is until that much time has passed since the first request."""
        return max(seconds - (time.monotonic() - (self._began or 0.0)), 0.0)

    def failed(self, text: str) -> ReplayMismatch:
        self._failure = self._failure or text
        return ReplayMismatch(self._failure)

    def _other(self, recorded: Exchange, view: Json) -> str:
        return (
            f"{recorded.where}: this request is not the recorded one "
            f"({self.record.where!r}, line {recorded.line})\n{difference(recorded.view, view)}"
        )

    def _missing(self, request: ModelRequest) -> str:
        path = "/".join(request.path)
        turns = [e.turn for e in self.record.exchanges if e.path == request.path]
        if request.turn in turns:
            why = f"its {turns.count(request.turn)} recorded ones have been played"
        elif turns:
            why = f"the record ends at turn {max(turns)} of this run"
        else:
            runs = list(dict.fromkeys("/".join(e.path) for e in self.record.exchanges))
            why = f"recorded runs: {runs[:20]}"
        return (
            f"run {path!r}, turn {request.turn}: the record {self.record.where!r} has no such request; {why}"
        )


_STARTING = ("task", "task_wait", "task_stop")


class ReplayedTools:
    """Answers calls with what they gave when they were recorded.

    What starts other runs runs: their requests are in the record, too.
    """

    def __init__(self, play: _Play) -> None:
        self._play = play

    def before_tool(self, ctx: ToolContext) -> ToolResult | None:
        tool = ctx.tool
        if tool.name in _STARTING and tool.source == "builtin":
            return None
        if self._play.record.has_runs_below(ctx.path, ctx.call_id):
            return None
        return result_of(self._play.take_tool(ctx).result)
