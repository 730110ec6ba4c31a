"""A model that answers from a script, without a server."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from toolnexus.core.messages import Message, ToolCallPart, assistant
from toolnexus.core.model import ModelRequest, ModelResponse, StopReason
from toolnexus.core.usage import Usage
from toolnexus.errors import ConfigError, ModelError
from toolnexus.models.function import FunctionModel

USAGE = Usage(prompt_tokens=10, completion_tokens=5)
"""What a scripted reply reports unless it says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """One reply of a `ScriptedModel`; made by `reply`."""

    text: str
    calls: tuple[ToolCallPart, ...]
    usage: Usage | None
    stop: StopReason | None
    delay: float
    when: Callable[[ModelRequest], bool] | None


Reply = ScriptedReply | str | Message | ModelResponse | BaseException | Callable[[ModelRequest], Any]


def call(name: str, /, id: str | None = None, **arguments: Any) -> ToolCallPart:
    """A tool call. Without `id` it gets one from its turn and position: `c1_0`, `c1_1`, `c2_0`."""
    return ToolCallPart(id or "", name, json.dumps(arguments))


def reply(
    text: str | ToolCallPart = "",
    *calls: ToolCallPart,
    usage: Usage | None = USAGE,
    stop: StopReason | None = None,
    delay: float = 0.0,
    when: Callable[[ModelRequest], bool] | None = None,
) -> ScriptedReply:
    """A reply of text and calls, or of calls alone: `reply("I look", call("read"))`, `reply(call("read"))`.

    `stop` follows from the calls unless given; `delay` is seconds before the answer; `usage=None` is
    an endpoint that reports none. With `when` it answers the first request that fits, once. Raises
    `ConfigError` for anything but a text and calls.
    """
    if isinstance(text, ToolCallPart):
        text, calls = "", (text, *calls)
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"a reply starts with its text or a call(…), not {type(text).__name__}")
    for one in calls:
        if not isinstance(one, ToolCallPart):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"behind its text a reply has calls made by call(…), not {type(one).__name__}")
    return ScriptedReply(text=text, calls=calls, usage=usage, stop=stop, delay=delay, when=when)


class ScriptedModel(FunctionModel):
    """Answers from a script, the same for any order in which parallel runs ask.

    `by_path` maps a run's path (segments joined by `/`, `*` stands for anything) to its replies: one
    per turn of each run that fits. Then come the `replies` with `when`, then the others, in order. A
    reply is what `reply` makes, a text, a `Message`, a `ModelResponse`, an exception to raise, or a
    function of the request that gives one (async, too: await an event to hold a run back).

    A request without a reply raises `ModelError` that names its path and turn.
    """

    def __init__(
        self,
        replies: Iterable[Reply] = (),
        *,
        by_path: Mapping[str, Iterable[Reply]] | None = None,
        name: str = "scripted",
    ) -> None:
        super().__init__(self._answer, name=name)
        for turns in (replies, *(by_path or {}).values()):
            if isinstance(turns, str):
                raise ConfigError(f"replies must be a list, not one text; write [{turns!r}]")
        given = list(replies)
        self._when = [r for r in given if isinstance(r, ScriptedReply) and r.when is not None]
        self._queue = [r for r in given if not isinstance(r, ScriptedReply) or r.when is None]
        self._by_path = {path: list(turns) for path, turns in (by_path or {}).items()}
        self.requests: list[ModelRequest] = []
        """Every request, in order of arrival, with the messages it had then."""

    async def _answer(self, request: ModelRequest) -> Any:
        self.requests.append(replace(request, messages=tuple(request.messages)))
        answer: Any = self._next(request)
        if not isinstance(answer, (ScriptedReply, Message, ModelResponse)) and callable(answer):
            answer = answer(request)
            if inspect.isawaitable(answer):
                answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, str):
            answer = reply(answer)
        if not isinstance(answer, ScriptedReply):
            return answer
        if answer.delay:
            await asyncio.sleep(answer.delay)
        calls = [c if c.id else replace(c, id=f"c{request.turn}_{i}") for i, c in enumerate(answer.calls)]
        stop: StopReason = answer.stop or ("tool_calls" if calls else "stop")
        return ModelResponse(message=assistant(answer.text, *calls), usage=answer.usage, stop=stop)

    def _next(self, request: ModelRequest) -> Reply:
        path = "/".join(request.path)
        for pattern, turns in self._by_path.items():
            if pattern == path or fnmatchcase(path, pattern):
                if request.turn <= len(turns):
                    return turns[request.turn - 1]
                raise self._exhausted(path, request, f"by_path[{pattern!r}] has {len(turns)} replies")
        for candidate in self._when:
            if candidate.when is not None and candidate.when(request):
                self._when.remove(candidate)
                return candidate
        if not self._queue:
            raise self._exhausted(path, request, "no reply is left")
        return self._queue.pop(0)

    def _exhausted(self, path: str, request: ModelRequest, why: str) -> ModelError:
        asked = f"run {path!r}, turn {request.turn}, request {len(self.requests)}"
        return ModelError(f"model {self.name!r} has no answer for {asked}: {why}")
