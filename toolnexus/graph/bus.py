"""The events of one run, for those inside of it who follow its nodes while they work."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any, NamedTuple


class Event(NamedTuple):
    """One event as it was published. `time` is in ISO 8601, `id` unique in its bus."""

    id: str
    subject: str
    time: str
    payload: Mapping[str, Any]


class EventBus:
    """Publishes to whoever subscribed, in this process. It never waits for a subscriber."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._subscriptions: list[Subscription] = []

    @property
    def listening(self) -> bool:
        """Whether anybody has subscribed."""
        return bool(self._subscriptions)

    def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        """Hand an event to everybody who has a pattern for its subject."""
        wanted = [s for s in self._subscriptions if s.wants(subject)]
        if wanted:
            now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
            event = Event(f"evt_{next(self._ids)}", subject, now, payload)
            for subscription in wanted:
                subscription.put(event)

    def subscribe(self, *patterns: str, size: int = 256) -> Subscription:
        """The events whose subject fits one of `patterns`: `*` is one token, `>` the rest.

        `size` is how many wait to be taken; of more, the oldest are dropped.
        """
        subscription = Subscription(self, [pattern.split(".") for pattern in patterns], size)
        self._subscriptions.append(subscription)
        return subscription

    def end(self, subscription: Subscription) -> None:
        """Hand it nothing any more."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)


class Subscription:
    """What one subscriber has not taken yet."""

    def __init__(self, bus: EventBus, patterns: Sequence[Sequence[str]], size: int) -> None:
        self._bus = bus
        self._patterns = patterns
        self._events: deque[Event] = deque(maxlen=size)
        self._changed = asyncio.Event()
        self.closed = False

    def wants(self, subject: str) -> bool:
        """Whether one of the patterns fits."""
        tokens = subject.split(".")
        return any(_fits(pattern, tokens) for pattern in self._patterns)

    def put(self, event: Event) -> None:
        """Add an event; a full subscription drops its oldest."""
        self._events.append(event)
        self._changed.set()

    async def next(self) -> Event | None:
        """The next event, as soon as there is one; None once it is closed."""
        while not self._events and not self.closed:
            self._changed.clear()
            await self._changed.wait()
        return self.take()

    def take(self) -> Event | None:
        """The next event that is there already, or None."""
        return None if self.closed or not self._events else self._events.popleft()

    def close(self) -> None:
        """Take no more; whoever waits gets None. May be called twice."""
        self.closed = True
        self._bus.end(self)
        self._events.clear()
        self._changed.set()


def _fits(pattern: Sequence[str], tokens: Sequence[str]) -> bool:
    for n, wanted in enumerate(pattern):
        if wanted == ">":
            return len(tokens) > n
        if n >= len(tokens) or wanted not in ("*", tokens[n]):
            return False
    return len(pattern) == len(tokens)
