"""A model that is a function in this process."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, cast

from toolnexus.core.messages import Message, assistant
from toolnexus.core.model import ModelRequest, ModelResponse
from toolnexus.errors import ModelResponseError
from toolnexus.models.sink import WatchedSink

Answer = str | Message | ModelResponse | AsyncIterator[str]
ModelFunction = Callable[[ModelRequest], Answer | Awaitable[Answer]]


class FunctionModel:
    """Answers with what `fn(request)` gives.

    `fn` is plain or async and gives a text, a `Message` or a `ModelResponse`; or it is an async
    generator of texts, which are handed on as they come. A plain function runs on the event loop, so
    it must be quick. What it raises passes as it is.
    """

    def __init__(self, fn: ModelFunction, *, name: str = "function") -> None:
        self._fn = fn
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer one request. Raises what the function raises, or `ModelResponseError` when it gives
        something else than its types."""
        sink = None if request.sink is None else WatchedSink(request.sink)
        answer: Any = self._fn(replace(request, sink=sink) if sink is not None else request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, AsyncIterator):
            return _response(assistant(await _joined(cast(AsyncIterator[str], answer), sink)))
        if isinstance(answer, str):
            answer = assistant(answer)
        if isinstance(answer, Message):
            answer = _response(answer)
        if not isinstance(answer, ModelResponse):
            raise ModelResponseError(
                f"model {self._name!r}: the function gave a {type(answer).__name__}; it must give a str, "
                f"a Message, a ModelResponse or an async iterator of str"
            )
        text = answer.message.text
        if sink is not None and text and not sink.said:  # unless the function streamed it itself
            sink.text(text)
        return answer

    async def aclose(self) -> None:
        """Nothing to close."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"


def _response(message: Message) -> ModelResponse:
    return ModelResponse(message=message, stop="tool_calls" if message.tool_calls else "stop")


async def _joined(texts: AsyncIterator[str], sink: WatchedSink | None) -> str:
    out: list[str] = []
    async with AsyncExitStack() as stack:
        if (close := getattr(texts, "aclose", None)) is not None:
            stack.push_async_callback(close)
        async for text in texts:
            out.append(text)
            if sink is not None and text:
                sink.text(text)
    return "".join(out)
