"""The transcripts of the runs below a conversation: one record in its store for each, and an index.

Above: the record of a run writes them, `Conversation` reads them. Below: the store, which knows them as
conversations that nobody else can name.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from toolnexus.core.messages import Message, user
from toolnexus.core.result import RunResult
from toolnexus.engine.conversation_id import RESERVED
from toolnexus.errors import StoreConflict, StoreError
from toolnexus.runtime.past import Past, Path
from toolnexus.stores.base import Store

logger = logging.getLogger("toolnexus.conversations")


class Transcripts:
    """The finished runs below the conversation `id`, each under its path.

    A run is in the index before its messages are stored, so that whatever is stored can be deleted.
    """

    def __init__(self, store: Store, id: str) -> None:
        self._store = store
        self._id = id
        self._kept: set[Path] = set()
        self._index: Mapping[Path, Past] | None = None
        self._version = 0
        self._one = asyncio.Lock()

    async def keep(self, run: RunResult) -> None:
        """Store a run that ended; a store that fails is tried again at the end."""
        try:
            await self._keep(run)
        except StoreError as error:
            logger.warning("conversation %r: run %s is not stored yet: %s", self._id, list(run.path), error)

    async def _keep(self, run: RunResult) -> None:
        if run.path in self._kept or not run.messages:
            return
        async with self._one:
            known = await self.index()
            if run.path not in known:
                await self._note(run)
            elif (await self.load(run.path)) == run.messages:
                self._kept.add(run.path)
                return
            await self._replace(self._record(run.path), run.messages)
            self._kept.add(run.path)

    async def keep_all(self, runs: Iterable[RunResult]) -> None:
        """Store those of `runs` and below them that ended. Raises `StoreError`."""
        for run in runs:
            if run.status != "pending":
                await self._keep(run)
            await self.keep_all(run.sub_agents)

    async def index(self) -> Mapping[Path, Past]:
        """What is known of each run, by path, in the order they ended."""
        if self._index is None:
            messages, self._version = await self._store.load(self._record())
            entries = [entry for message in messages if (entry := _read(message)) is not None]
            self._index = {entry.path: entry for entry in entries}
        return self._index

    async def load(self, path: Sequence[str]) -> tuple[Message, ...]:
        """The transcript of the run at `path`; empty when there is none."""
        messages, _ = await self._store.load(self._record(path))
        return messages

    async def delete(self) -> None:
        """Remove all of them, and what was kept meanwhile."""
        while True:
            self._index = None
            for path in await self.index():
                await self._replace(self._record(path), ())
            try:
                await self._store.replace(self._record(), (), self._version)
                return
            except StoreConflict:
                continue

    async def _note(self, run: RunResult) -> None:
        entry = replace(Past.of(run), messages=None)
        line = user(json.dumps(entry.to_json(), ensure_ascii=False))
        while True:
            known = {**await self.index(), run.path: entry}
            try:
                self._version = await self._store.append(self._record(), [line], self._version)
            except StoreConflict:  # another process goes on with the conversation
                self._index = None
            else:
                self._index = known
                return

    async def _replace(self, id: str, messages: Sequence[Message]) -> None:
        version = 0
        while True:
            try:
                await self._store.replace(id, messages, version)
                return
            except StoreConflict as conflict:
                version = conflict.version

    def _record(self, path: Sequence[str] = ()) -> str:
        """The id of a record, another one for every conversation and path, whatever text they are."""
        return f"{RESERVED}{[self._id, *path]!a}"


def _read(message: Message) -> Past | None:
    """An entry of the index; None for what is none."""
    try:
        return Past.from_json(json.loads(message.text))
    except (ValueError, TypeError, KeyError):
        return None
