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


class Retries:
    """The failed attempts of one request so far, each of which is told with `after`.

    `request` is told of retries; the text of the error that ends them stands behind `label`.
    """

    def __init__(self, policy: RetryPolicy, request: ModelRequest | None = None, label: str = "") -> None:
        self._policy = policy
        self._request = request
        self._label = label
        self._number = 0
        self._partial: Any = None
        self._said = False

    async def after(self, error: Broken | ModelError) -> Any:
        """Wait until the request may go out again, and give None.

        When a stream broke after its text was handed on and no attempt brought more, the text so far
        comes back with stop `cut`. Raises the `ModelError` that ends the attempts otherwise.
        """
        self._number += 1
        if isinstance(error, Broken):
            failure, self._said = error.error, self._said or error.said
            self._partial = error.partial or self._partial
        else:
            failure = error
        failure.retries = self._number - 1
        hint = failure.retry_after if isinstance(failure, ModelHTTPError) else None
        policy = self._policy
        ended = self._number > policy.retries or (hint is not None and hint > policy.cap)
        if ended and failure.retryable and self._partial is not None:
            return self._partial
        if ended or not failure.retryable:
            failure.args = (f"{self._label}{failure}",)
            raise failure
        delay = policy.delay(self._number, hint)
        if self._request is not None:
            self._request.retry(attempt=self._number, delay=delay, error=failure, restarted=self._said)
        self._said = False
        await asyncio.sleep(delay)
        return None


async def with_retries(
    policy: RetryPolicy,
    attempt: Callable[[], Awaitable[T]],
    request: ModelRequest | None,
    label: str = "",
) -> T:
    """The first good reply, or what `Retries` makes of those that failed."""
    retries = Retries(policy, request, label)
    while True:
        try:
            return await attempt()
        except (Broken, ModelError) as error:
            failed = error
        if (rest := await retries.after(failed)) is not None:
            return rest
