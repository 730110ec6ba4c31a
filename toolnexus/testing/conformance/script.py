"""What a case declares, come to life: replies, tools, gates, answers; and what they saw."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from toolnexus.testing.conformance.compare import fits
from toolnexus.testing.conformance.fixture import Data

MAIN = "main"
_COUNTED = {"promptTokens": 10, "completionTokens": 5}
"""What an endpoint reports unless the fixture says something else."""


@dataclass(slots=True)
class Span:
    """A request or a call: what it was, its start and its end on a clock that counts both."""

    data: Data
    start: int
    end: float = float("inf")
    abandoned: bool = False
    """Whether who asked went away before there was an answer."""


def summary(spans: list[Span]) -> Data:
    """How many, of which runs in order of their start, how many at once at most and given up."""
    at_once = [sum(other.start <= span.start < other.end for other in spans) for span in spans]
    return {
        "count": len(spans),
        "paths": [span.data["path"] for span in spans],
        "mostAtOnce": max(at_once, default=0),
        "abandoned": sum(span.abandoned for span in spans),
    }


@dataclass(slots=True)
class Gate:
    """Holds back whoever comes until all parties have come."""

    parties: int | None
    came: int = 0
    instead: Callable[[], Awaitable[None]] | None = None
    """What is done when all have come, instead of opening."""
    _open: asyncio.Event = field(default_factory=asyncio.Event)

    async def passed(self, settle: Callable[[], Awaitable[None]]) -> None:
        """Wait until it is open. `settle` lets one party too many come before the others leave."""
        self.came += 1
        if self.came == self.parties:
            if self.instead is not None:
                await self.instead()
            else:
                await settle()
                self._open.set()
        await self._open.wait()


class Script:
    """The outside of one case. Records every request and every call of a declared tool.

    `settle` comes back when the implementation has done all that it can do without an answer.
    """

    def __init__(self, case: Data, settle: Callable[[], Awaitable[None]]) -> None:
        self._replies: list[Data] = case.get("replies", [])
        self._does: dict[str, Data] = {tool["name"]: tool.get("does", {}) for tool in case.get("tools", ())}
        self._settle = settle
        self._clock = itertools.count()
        holders: list[Data] = [{**case.get("client", {}), "name": MAIN}, *case.get("agents", ())]
        self._answers = {h["name"]: iter(h["answers"]) for h in holders if "answers" in h}
        self._goes_on = {h["name"]: _in_turn(h["shouldContinue"]) for h in holders if "shouldContinue" in h}
        self.gates = {name: Gate(parties) for name, parties in case.get("gates", {}).items()}
        self.requests: list[Span] = []
        self.calls: dict[str, list[Span]] = {name: [] for name in self._does}
        self.unanswered: list[str] = []
        """Requests that no reply fits."""

    async def reply(self, asked: Data) -> Data:
        """What the model says to a request: `text`, `calls`, `usage`, `stop`; or `error`."""
        with self._span(self.requests, asked):
            reply = next((r for r in self._replies if fits(r.get("when", {}), asked)), None)
            if reply is None:
                self.unanswered.append(f"{asked['path']}, turn {asked['turn']}")
                return {"error": {"message": "the fixture has no reply for this request"}}
            if "gate" in reply:
                await self.gates[reply["gate"]].passed(self._settle)
            return {"error": reply["fails"]} if "fails" in reply else _said(reply, asked["last"])

    async def tool(self, name: str, arguments: Data, path: str, answer: Data | None) -> Data:
        """What a call of a declared tool gives: `output`, `error` or `ask`."""
        does = self._does[name]
        with self._span(self.calls[name], {"path": path}):
            if "gate" in does:
                await self.gates[does["gate"]].passed(self._settle)
            if "raise" in does:
                return {"error": does["raise"]}
            if answer is not None:
                return {"output": _text(answer.get("data"))}
            if "ask" in does:
                return {"ask": does["ask"]}
            value = arguments.get(does["echo"]) if "echo" in does else does.get("return", "ok")
            return {"output": _text(value)}

    def answer(self, holder: str) -> Data:
        """The next answer of who is asked; without one left it declines."""
        return {"ok": True, **next(self._answers[holder], {"ok": False})}

    def goes_on(self, holder: str) -> bool:
        """What the next `shouldContinue` of `holder` says."""
        return next(self._goes_on[holder], False)

    @contextmanager
    def _span(self, spans: list[Span], data: Data) -> Generator[None]:
        span = Span(data, next(self._clock))
        spans.append(span)
        try:
            yield
        except asyncio.CancelledError:
            span.abandoned = True
            raise
        finally:
            span.end = next(self._clock)


def _in_turn(given: bool | list[bool]) -> Iterator[bool]:
    """These answers one by one; a single one always."""
    return itertools.repeat(given) if isinstance(given, bool) else iter(given)


def _said(reply: Data, last: str) -> Data:
    specs = [spec for spec in reply.get("calls", ()) for _ in range(spec.get("repeat", 1))]
    calls = [
        {
            "id": spec.get("id", f"call_{place}"),
            "name": spec["name"],
            "arguments": _text(spec.get("arguments", {})),
        }
        for place, spec in enumerate(specs, 1)
    ]
    return {
        "text": reply.get("text", "").replace("{last}", last),
        "calls": calls,
        "usage": reply.get("usage", _COUNTED),
        "stop": reply.get("stop") or ("tool_calls" if calls else "stop"),
    }


def _text(value: Any) -> str:
    """A text as it is, any other value as JSON: so tools give output, and models write arguments."""
    return value if isinstance(value, str) else json.dumps(value)


def placed(value: Any, folder: str) -> Any:
    """`value` with the working folder wherever a text says `{workdir}`."""
    if isinstance(value, str):
        return value.replace("{workdir}", folder)
    if isinstance(value, list):
        return [placed(item, folder) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {placed(key, folder): placed(item, folder) for key, item in cast(Data, value).items()}
    return value
