"""The durable queue of one worker, beside its conversation in the same store."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from toolnexus.errors import RunError, StoreConflict
from toolnexus.stores.base import Store
from toolnexus.workers.post import Post, read_back


class Queue:
    """What was posted and is not done. What the conversation has already is never queued again."""

    def __init__(self, store: Store, name: str, conversation: str, most: int) -> None:
        self.posts: list[Post] = []
        self.seen: set[str] = set()
        """The ids of all posts that the conversation or the queue has."""
        self._store = store
        self._name = name
        self._id = f"inbox:{conversation}"
        self._conversation = conversation
        self._most = most
        self._version: int | None = None
        self._coming = 0
        self._door = asyncio.Lock()

    async def load(self) -> None:
        """Read what the store has: another worker of this name may have been there."""
        async with self._door:
            said, _ = await self._store.load(self._conversation)
            kept, self._version = await self._store.load(self._id)
            self.posts = [Post.from_message(message) for message in kept]
            self.seen |= {id for id, _ in read_back(said)} | {post.id for post in self.posts}

    async def put(self, post: Post) -> None:
        """Keep `post`, once. Raises `RunError` at once when there is no room, and `StoreError`."""
        if self._version is None:
            await self.load()
        if post.id in self.seen:
            return
        if len(self.posts) + self._coming >= self._most:
            raise RunError(f"not sent: the inbox of {self._name!r} is full ({self._most} messages)")
        self._coming += 1
        self.seen.add(post.id)
        try:
            async with self._door:
                await self._append(post)
                self.posts.append(post)
        except BaseException:
            self.seen.discard(post.id)
            raise
        finally:
            self._coming -= 1

    async def drop(self, ids: Collection[str]) -> None:
        """These are done."""
        async with self._door:
            while True:
                kept, version = await self._store.load(self._id)
                rest = [message for message in kept if Post.from_message(message).id not in ids]
                try:
                    self._version = await self._store.replace(self._id, rest, version)
                    break
                except StoreConflict:
                    continue
            self.posts = [post for post in self.posts if post.id not in ids]

    async def _append(self, post: Post) -> None:
        assert self._version is not None
        while True:
            try:
                self._version = await self._store.append(self._id, [post.to_message()], self._version)
                return
            except StoreConflict as conflict:
                self._version = conflict.version
