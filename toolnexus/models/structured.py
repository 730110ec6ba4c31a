"""How a model is made to answer in a given form, and what was learnt of its endpoint.

Three ways: `native` (the endpoint holds the model to the schema), `tool` (the answer is the arguments of
a tool that is offered beside the others), `prompt` (the schema is in the instructions). Whichever it is,
the reply that comes back has the JSON in its text: nothing above knows of the ways.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

from toolnexus.core.messages import Part, TextPart, ToolCallPart
from toolnexus.core.strict_json import decode
from toolnexus.core.tools import Tool
from toolnexus.errors import ConfigError, ModelHTTPError

if TYPE_CHECKING:
    from toolnexus.core.model import ModelRequest, ModelResponse, OutputSpec

Way = Literal["native", "tool", "prompt"]

ANSWER = "final_answer"
"""The tool that takes the answer, unless another tool has the name."""

_ORDER: tuple[Way, ...] = ("native", "tool", "prompt")

_NO_FORMAT = r"response.?format|output.?(?:config|format)|schema|structured|json.?mode|mime.?type|grammar"
_REFUSALS: dict[Way, tuple[tuple[int, ...], str]] = {
    "native": ((400, 422), _NO_FORMAT),
    "tool": ((400, 404, 422), "tool|function"),
}
"""The errors that say that an endpoint does not have a way."""


class Ways:
    """The way that one model takes. Safe to use from many runs at once.

    `forced` is the one that its user chose; then no other is tried.
    """

    def __init__(self, forced: Way | None = None) -> None:
        if forced is not None and forced not in _ORDER:
            raise ConfigError(f"structured={forced!r} must be one of {list(_ORDER)}, or None: whatever works")
        self.forced: Way | None = forced
        self._refused: set[Way] = set()

    def fresh(self) -> Ways:
        """The same choice, with nothing learnt."""
        return Ways(self.forced)

    async def answer(
        self,
        request: ModelRequest,
        has_native: Callable[[OutputSpec], bool],
        send: Callable[[ModelRequest, Way], Awaitable[ModelResponse]],
    ) -> ModelResponse:
        """The reply to a request that has an `output`, its answer as JSON in the text.

        An endpoint that refuses a way is asked in the next one, and never in that one again. So is an
        endpoint that answers with prose: it passes over what it does not know.
        """
        output = request.output
        assert output is not None
        ways: list[Way] = [self.forced] if self.forced is not None else self._open(output, has_native)
        tried: list[Way] = []
        while True:
            way = ways[len(tried)]
            try:
                response = await _asked(request, output, way, send)
            except ModelHTTPError as error:
                tried.append(way)
                if len(tried) == len(ways) or not _is_refusal(way, error):
                    raise
                if request.sink is not None:
                    request.sink.retrying(attempt=1, delay=0.0, reason=str(error), restarted=False)
                continue
            if self.forced is None:
                self._refused.update(tried)
                if way == "native" and _is_prose(response):
                    self._refused.add(way)
            return response

    def _open(self, output: OutputSpec, has_native: Callable[[OutputSpec], bool]) -> list[Way]:
        """The ways that may work, the best one first."""
        closed = self._refused if has_native(output) else {"native", *self._refused}
        return [way for way in _ORDER if way not in closed]


def _is_refusal(way: Way, error: ModelHTTPError) -> bool:
    statuses, words = _REFUSALS[way]
    return error.status in statuses and re.search(words, str(error), re.IGNORECASE) is not None


def _is_prose(response: ModelResponse) -> bool:
    text = response.message.text.strip()
    if response.stop != "stop" or response.message.tool_calls or not text:
        return False
    try:
        decode(text)
    except (ValueError, RecursionError):
        return True
    return False


async def _asked(
    request: ModelRequest,
    output: OutputSpec,
    way: Way,
    send: Callable[[ModelRequest, Way], Awaitable[ModelResponse]],
) -> ModelResponse:
    if way == "native":
        return await send(request, way)
    if way == "prompt":
        return await send(_telling(request, output.instructions), way)
    tool = _answer_tool(request, output)
    offering = replace(request, tools=(*request.tools, tool))
    response = await send(_telling(offering, f"Give your final answer by calling {tool.name!r}."), way)
    return _spoken(response, tool, request)


def _telling(request: ModelRequest, words: str) -> ModelRequest:
    return replace(request, system=f"{request.system}\n\n{words}" if request.system else words)


def _answer_tool(request: ModelRequest, output: OutputSpec) -> Tool:
    """The same object in every turn of a run."""
    known: Tool | None = request.memo.get(output)
    taken = {tool.name for tool in request.tools}
    if known is None or known.name in taken:
        name, n = ANSWER, 1
        while name in taken:
            n += 1
            name = f"{ANSWER}_{n}"
        about = "Takes your final answer. Call it once, alone, when you have everything."
        text = f"{about}\n{output.description}" if output.description else about
        known = request.memo[output] = Tool(name, text, output.schema, _never)
    return known


async def _never(arguments: dict[str, Any], ctx: Any) -> dict[str, Any]:
    """The call is taken out of the reply before anything could run it."""
    return arguments


def _spoken(response: ModelResponse, tool: Tool, request: ModelRequest) -> ModelResponse:
    """The reply with the arguments of the answer as its text. What else it calls stays called."""
    answers = [call for call in response.message.tool_calls if call.name == tool.name]
    if not answers:
        return response
    others = [p for p in response.message.parts if p not in answers]
    text = _arguments(answers[-1], tool)  # of several the last one holds
    if response.message.text:
        text = f"\n\n{text}"
    if request.sink is not None:
        request.sink.text(text)
    place = next((n for n, part in enumerate(others) if isinstance(part, ToolCallPart)), len(others))
    parts: list[Part] = [*others[:place], TextPart(text), *others[place:]]
    message = replace(response.message, parts=tuple(parts))
    ended = response.stop == "tool_calls" and not message.tool_calls
    return replace(response, message=message, stop="stop" if ended else response.stop)


def _arguments(call: ToolCallPart, tool: Tool) -> str:
    from toolnexus.core.schema import original_keys

    keys = original_keys(tool)
    text = call.arguments or "{}"
    if not keys:
        return text
    try:
        members = decode(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(members, dict):
        return text
    named = {keys.get(key, key): value for key, value in cast("dict[str, Any]", members).items()}
    return json.dumps(named, ensure_ascii=False)
