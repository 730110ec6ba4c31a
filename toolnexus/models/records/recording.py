"""A model that writes down what it is asked and what it says."""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import takewhile
from operator import eq
from typing import Any

from toolnexus.core.model import ModelRequest, ModelResponse
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.core.values import mutable
from toolnexus.models.base import Model
from toolnexus.models.records.file import RecordWriter, after
from toolnexus.models.records.form import (
    Json,
    Views,
    cleaned,
    error_form,
    reply_form,
    result_form,
    tool_forms,
)
from toolnexus.models.registry import near, resolve
from toolnexus.runtime.context import ToolContext
from toolnexus.runtime.redact import Redactor


class RecordingModel:
    """Passes every request on to `model` and writes it to the file `path`, with its reply or its error.

    `model` is a `Model` or `"provider:name"`. As the model of a client it records every run of the
    tree, also those of agents with models of their own. `hooks=[recording.tools]` records what tools
    give, so that a replay need not run them.

    A record that is there is replaced; any other file is left alone (`ConfigError`). Keys and header
    values are masked. What people and tools say is not: a record is as private as the run was.
    """

    def __init__(
        self,
        model: str | Model,
        path: str | os.PathLike[str],
        *,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self._model = resolve(model)
        self._redact = Redactor(self.secrets)
        header = {"model": self._model.name, **(about or {})}
        self._file = RecordWriter(path, cleaned(header, self._redact))
        self.tools = RecordedTools(self._file)
        """A hook for `Client(hooks=[…])`, the last one: it records what tools give."""

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that no text may show."""
        return tuple(getattr(self._model, "secrets", ()))

    def standing_for(self, spec: str | Model) -> RecordingModel:
        """The model `spec`, recorded in the same file."""
        twin = copy.copy(self)
        twin._model = (near(self._model, spec) if isinstance(spec, str) else None) or resolve(spec)
        for secret in twin.secrets:
            self._redact.add(secret)
        return twin

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer one request as the recorded model does. Raises what that raises."""
        run = request.memo.setdefault(self._file, _Run(Views(self._redact)))
        entry = run.entry(request, self._file, self._redact)
        entry["model"] = self._model.name
        began = self._file.seconds
        outcome: Json = {}
        try:
            response = await self._model.generate(request)
            entry["model"] = response.model or self._model.name
            outcome["reply"] = reply_form(response, self._redact)
            return response
        except asyncio.CancelledError:
            outcome["cancelled"] = self._file.seconds
            raise
        except Exception as error:
            outcome["error"] = error_form(error, self._redact)
            raise
        finally:
            if outcome:
                seconds = round(self._file.seconds - began, 3)
                run.over(self._file.exchange({**entry, **outcome, "seconds": seconds}), outcome)

    async def aclose(self) -> None:
        """Close idle connections of the recorded model."""
        await self._model.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r})"


@mutable()
class _Run:
    """What the record holds of one run, so that each line says only what is new."""

    views: Views
    number: int = 0
    known: list[Json] = field(default_factory=list[Json])
    asked: list[Json] = field(default_factory=list[Json])
    system: str | None = None
    tools: Sequence[Tool] | None = None

    def entry(self, request: ModelRequest, file: RecordWriter, redact: Redactor) -> Json:
        """What is new in `request`."""
        out: Json = {"path": list(request.path), "turn": request.turn, "agent": request.agent}
        if self.number:
            out["after"] = self.number
        if request.system != self.system:
            self.system = request.system
            out["system"] = redact(request.system)
        if request.tools is not self.tools:
            self.tools = request.tools
            out["tools"] = file.tools(tool_forms(request.tools, redact))
        self.asked = self.views.all(request.messages)
        kept = len(list(takewhile(bool, map(eq, self.known, self.asked))))
        if kept < len(self.known):
            out["keep"] = kept
        out["messages"] = self.asked[kept:]
        return out

    def over(self, number: int, outcome: Json) -> None:
        self.number, self.known = number, after(self.asked, outcome)


class RecordedTools:
    """Writes down what each call gave."""

    def __init__(self, file: RecordWriter) -> None:
        self._file = file

    def after_tool(self, ctx: ToolContext, result: ToolResult) -> None:
        redact = ctx.context.run.redact
        entry: Json = {
            "path": list(ctx.path),
            "id": ctx.call_id,
            "name": ctx.tool.name,
            "arguments": cleaned(ctx.arguments, redact),
            "result": result_form(result, redact),
        }
        if ctx.answer is not None:
            entry["answered"] = True
        self._file.tool_run(entry)
