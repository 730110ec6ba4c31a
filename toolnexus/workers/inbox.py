"""The durable queue of one worker, beside its conversation in the same store.

Whoever works on it has a claim in its state, and beats there. A claim that has not beaten for its lease is of
a process that is gone. Each process measures that itself, so clocks are never compared.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

from toolnexus.errors import RunError, StoreConflict, StoreError
from toolnexus.stores.base import Store
from toolnexus.workers.post import Post, read_back

logger = logging.getLogger("toolnexus.workers")


class Lost(RunError):
    """Another process has taken the queue over, or the store was out of reach for too long to know."""


class Queue:
    """What was posted and is not done. What the conversation has already is never queued again."""

    def __init__(self, store: Store, name: str, conversation: str, most: int, lease: float) -> None:
        self.posts: list[Post] = []
        self.was_left = True
        """Whether somebody may have left a turn in the middle."""
        self.pause = min(0.25, lease / 10)
        """How long to wait for another process, in seconds, before the next look."""
        self._seen: set[str] = set()
        """The ids of all posts that the conversation or the queue has."""
        self._store = store
        self._name = name
        self._id = f"inbox:{conversation}"
        self._conversation = conversation
        self._most = most
        self._lease = lease
        self._mark = os.urandom(8).hex()
        self._beaten = 0
        self._version: int | None = None
        self._claim: Mapping[str, Any] | None = None
        self._watched: tuple[Mapping[str, Any] | None, float] = None, 0.0
        """The claim of another process, and since when it has not beaten."""
        self._coming = 0
        self._door = asyncio.Lock()

    async def load(self) -> None:
        """Read what the store has: another worker of this name may have been there."""
        async with self._door:
            said, _ = await self._store.load(self._conversation)
            await self._look()
            self._seen |= {id for id, _ in read_back(said)}

    async def put(self, post: Post) -> None:
        """Keep `post`, once. Raises `RunError` at once when there is no room, and `StoreError`."""
        if self._version is None or post.hops or self._is_full:  # others may have written since
            await self.load()
        if post.id in self._seen:
            return
        self._check_room()
        self._coming += 1
        self._seen.add(post.id)
        try:
            async with self._door:
                await self._append(post)
        except BaseException:
            self._seen.discard(post.id)
            raise
        finally:
            self._coming -= 1

    async def claim(self) -> bool:
        """Make it ours, for `held`. False: another process works on it."""
        async with self._door:
            while True:
                await self._look()
                if not self._is_free():
                    return False
                try:
                    found = self._claim
                    await self._beat()
                except StoreConflict:
                    continue
                self.was_left = self.was_left or found is not None
                return True

    async def wait_and_claim(self) -> None:
        """Make it ours as soon as no other process works on it."""
        while True:
            if await self.claim():
                return
            await asyncio.sleep(self.pause)

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        """What runs in here has the claim. When that is not sure any more it is cut short: raises `Lost`."""
        limit = asyncio.timeout(None)
        try:
            async with limit:
                beating = asyncio.create_task(self._beats(limit))
                try:
                    yield
                finally:
                    beating.cancel()
                    await asyncio.wait([beating])
        except BaseException as error:
            if limit.expired() and isinstance(error, TimeoutError):
                text = f"the inbox of {self._name!r} was taken over elsewhere, or its store was out of reach"
                raise Lost(text) from error
            await self._leave()
            raise
        await self.drop(())

    async def drop(self, ids: Collection[str]) -> None:
        """These are done, and the claim is given back. Nothing, when it is not ours any more."""
        async with self._door:
            while self._is_ours:
                assert self._version is not None
                rest = [post for post in self.posts if post.id not in ids]
                try:
                    self._version = await self._store.replace(
                        self._id, [post.to_message() for post in rest], self._version
                    )
                    self.posts, self._claim = rest, None
                except StoreConflict:
                    await self._look()

    async def _leave(self) -> None:
        """Let anybody take it up at once who finds out how far this came."""
        self.was_left = True
        try:
            async with self._door:
                await self._renew(lease=0)
        except StoreError as error:
            logger.warning("the claim on the inbox of %r stays for its lease: %s", self._name, error)

    async def _beats(self, limit: asyncio.Timeout) -> None:
        """Beat as long as the claim is ours; then end what runs within `limit`."""
        sure = time.monotonic()
        while True:
            await asyncio.sleep(self._lease / 3)
            began = time.monotonic()
            try:
                async with asyncio.timeout(self._lease / 3), self._door:
                    ours = await self._renew()
                sure = began
            except (StoreError, TimeoutError) as error:
                logger.warning("the claim on the inbox of %r is not renewed: %s", self._name, error)
                ours = time.monotonic() - sure < self._lease / 2
            if not ours:
                limit.reschedule(asyncio.get_running_loop().time())
                return

    async def _renew(self, lease: float | None = None) -> bool:
        """Whether the claim is ours, with a new beat then."""
        while self._is_ours:
            try:
                await self._beat(lease)
                return True
            except StoreConflict:
                await self._look()
        return False

    async def _beat(self, lease: float | None = None) -> None:
        """Write a claim that is like none before: whoever looks now and then cannot take two for one."""
        assert self._version is not None
        self._beaten += 1
        claim = {"by": self._mark, "beat": self._beaten, "lease": self._lease if lease is None else lease}
        self._version = await self._store.append(self._id, (), self._version, claim)
        self._claim = claim

    async def _append(self, post: Post) -> None:
        while True:
            assert self._version is not None
            try:
                self._version = await self._store.append(
                    self._id, [post.to_message()], self._version, self._claim
                )
                self.posts.append(post)
                return
            except StoreConflict:
                await self._look()
                self._check_room()

    async def _look(self) -> None:
        """How the queue stands in the store. What is torn is no claim."""
        kept, self._version = await self._store.load(self._id)
        match await self._store.load_state(self._id):
            case {"by": str(), "beat": int(), "lease": float() | int()} as claim:
                self._claim = claim
            case _:
                self._claim = None
        self.posts = [Post.from_message(message) for message in kept]
        self._seen |= {post.id for post in self.posts}

    def _is_free(self) -> bool:
        """Whether the claim may be ours now."""
        if self._claim is None or self._is_ours:
            return True
        if self._claim != self._watched[0]:
            self._watched = self._claim, time.monotonic()
        return time.monotonic() - self._watched[1] >= self._claim["lease"]

    @property
    def _is_ours(self) -> bool:
        return self._claim is not None and self._claim["by"] == self._mark

    @property
    def _is_full(self) -> bool:
        return len(self.posts) + self._coming >= self._most

    def _check_room(self) -> None:
        if self._is_full:
            raise RunError(f"not sent: the inbox of {self._name!r} is full ({self._most} messages)")
