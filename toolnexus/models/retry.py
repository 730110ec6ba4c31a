"""Requests that failed for a while go out again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from toolnexus.core.values import frozen
from toolnexus.errors import ConfigError, ModelError, ModelHTTPError

if TYPE_CHECKING:
    from toolnexus.core.model import ModelRequest, ModelResponse

T = TypeVar("T")

_LONGEST_BACKOFF = 8.0


@frozen()
class RetryPolicy:
    """How often and how long after a failed request the same one goes out again.

    `retries` counts the further attempts, `base` is the first delay in seconds (doubled each time,
    with jitter), `cap` the longest wait in seconds that a server may ask for: a longer one ends the
    request at once.
    """

    retries: int = 2
    base: float = 0.5
    cap: float = 60.0

    def __post_init__(self) -> None:
        for name in ("retries", "base", "cap"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name}={getattr(self, name)!r} of a retry policy must be 0 or more")

    def delay(self, attempt: int, hint: float | None) -> float:
        """Seconds to wait after the failure of `attempt` (from 1); never less than the hint."""
        import random

        spread = 1 + random.random() / 4  # many runs that failed together must not come back together
        if hint is not None:
            return hint * spread
        return min(self.base * 2 ** (attempt - 1), _LONGEST_BACKOFF) * spread


class Broken(Exception):
    """A stream that failed on its way.

    `partial` is the reply so far when it had text; `said` whether anything was handed to the sink.
    """

    def __init__(self, error: ModelError, partial: ModelResponse | None, said: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.partial = partial
        self.said = said


async def with_retries(
    policy: RetryPolicy,
    attempt: Callable[[], Awaitable[T]],
    request: ModelRequest | None,
    label: str = "",
) -> T:
    """The first good reply; `request` is told of retries.

    When a stream broke after its text was handed on and no attempt brought more, the text so far
    comes back with stop `cut`. Raises the last `ModelError` otherwise, its text behind `label`.
    """
    number = 0
    partial: Any = None
    said = False
    while True:
        number += 1
        try:
            return await attempt()
        except Broken as broken:
            failure, said = broken.error, said or broken.said
            partial = broken.partial or partial
        except ModelError as error:
            failure = error
        failure.retries = number - 1
        hint = failure.retry_after if isinstance(failure, ModelHTTPError) else None
        ended = number > policy.retries or (hint is not None and hint > policy.cap)
        if ended and failure.retryable and partial is not None:
            return partial
        if ended or not failure.retryable:
            failure.args = (f"{label}{failure}",)
            raise failure
        delay = policy.delay(number, hint)
        if request is not None:
            request.retry(attempt=number, delay=delay, error=failure, restarted=said)
        said = False
        await asyncio.sleep(delay)
