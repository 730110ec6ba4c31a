"""The model port.

What it is: one model request, answered by one message, with deltas on the side.
What it is not: a loop, a tool runner, a conversation.
Above: `engine/turn.py` is the only caller. Below: `openai`, `anthropic`, `function`, `fallback`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from toolnexus.core.model import ModelRequest, ModelResponse


@runtime_checkable
class Model(Protocol):
    """What the loop needs of a model. Implementations are safe to use from many runs at once."""

    @property
    def name(self) -> str:
        """The model's name, as usage and events report it."""
        ...

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Answer one request.

        Raises `ModelError`; cancelling the awaiting task closes the request. Retries happen in
        here, so one call is one turn whatever it took.
        """
        ...

    async def aclose(self) -> None:
        """Close idle connections; the next request opens them again."""
        ...
