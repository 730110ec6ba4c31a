"""What a run gives, as the one artifact of its task."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

from a2a.server.tasks import TaskUpdater
from a2a.types import Part

from toolnexus.core.events import Event, Retrying, TextDelta, TurnStarted
from toolnexus.core.messages import MediaPart, TextPart
from toolnexus.core.result import RunResult
from toolnexus.protocols.a2a.parts import data_part, text_part, to_a2a

ARTIFACT = "answer"
INTERVAL = 0.1
"""Seconds between two pieces of text: each is written into the store of tasks."""


class Artifact:
    """The answer as it grows. What a turn said before it called tools is replaced by the next turn's."""

    def __init__(self, updater: TaskUpdater, *, streams: bool) -> None:
        self._updater = updater
        self._streams = streams
        self._sent = ""
        self._unsent: list[str] = []
        self._fresh = True
        self._last = 0.0

    async def take(self, event: Event) -> None:
        """Hand on what `event` adds to the answer."""
        if not self._streams:
            return
        own = len(event.path) == 1
        if own and isinstance(event, TextDelta):
            self._unsent.append(event.text)
            if time.monotonic() - self._last >= INTERVAL:
                await self._flush()
            return
        await self._flush()
        if own and (isinstance(event, TurnStarted) or (isinstance(event, Retrying) and event.restarted)):
            self._fresh = True

    async def finish(self, result: RunResult) -> None:
        """Send what is still missing of the result."""
        await self._flush()
        text, rest = _text_of(result), _more_of(result)
        if rest:
            await self._send(rest, append=False)
        elif not self._fresh and text.startswith(self._sent):
            if len(text) > len(self._sent):
                await self._send([text_part(text[len(self._sent) :])], append=True)
        else:
            await self._send([text_part(text)], append=False)

    async def _flush(self) -> None:
        text = "".join(self._unsent)
        self._unsent.clear()
        if not text:
            return
        append, self._fresh = not self._fresh, False
        self._sent = self._sent + text if append else text
        self._last = time.monotonic()
        await self._send([text_part(text)], append=append)

    async def _send(self, parts: list[Part], *, append: bool) -> None:
        await self._updater.add_artifact(parts, artifact_id=ARTIFACT, name=ARTIFACT, append=append)


def _text_of(result: RunResult) -> str:
    """The text; of a run that a limit stopped also the line that says so, as a caller in process gets it."""
    if result.status != "incomplete":
        return result.text
    hit = next((h for h in result.limits_hit if h.path == result.path), result.limit)
    return f"{result.text}\n[incomplete: {hit}]"


def _more_of(result: RunResult) -> list[Part]:
    """The parts of an output that is no text; none for one that is."""
    output: Any = result.output
    if result.status != "done" or output is None or isinstance(output, str):
        return []
    items = cast("Sequence[Any]", output) if isinstance(output, (list, tuple)) else (output,)
    if items and all(isinstance(item, (str, TextPart, MediaPart)) for item in items):
        return to_a2a([TextPart(item) if isinstance(item, str) else item for item in items])
    from pydantic_core import to_jsonable_python

    try:
        return [data_part(to_jsonable_python(output))]
    except ValueError:  # what JSON cannot say is said by its text
        return []
