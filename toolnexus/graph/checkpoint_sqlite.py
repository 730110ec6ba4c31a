"""Checkpoints in one SQLite file, shared by any number of processes."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from toolnexus.errors import ConfigError, StoreError
from toolnexus.graph.checkpoint import Checkpoint, read_checkpoint

T = TypeVar("T")

BUSY_SECONDS = 30.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS graph_checkpoints (
    exec_id TEXT PRIMARY KEY, time REAL NOT NULL, checkpoint TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS graph_calls (
    exec_id TEXT NOT NULL, wave TEXT NOT NULL, call TEXT NOT NULL, result TEXT NOT NULL,
    PRIMARY KEY (exec_id, wave, call)) WITHOUT ROWID;
"""


class SqliteCheckpoints:
    """Keeps the latest checkpoint of each run in the file `path`, which is made at first use.

    A save is one transaction: after a crash there is the checkpoint before or this one. Each call has a
    connection of its own, on a thread. Raises `StoreError` when the file cannot be used.
    """

    def __init__(self, path: str | Path) -> None:
        if str(path) in ("", ":memory:"):
            raise ConfigError(
                f"SqliteCheckpoints({str(path)!r}): a file path is needed; in memory: MemoryCheckpoints()"
            )
        self.path = Path(os.path.abspath(Path(path).expanduser()))
        self._made = False

    async def save(self, checkpoint: Checkpoint) -> None:
        """See `CheckpointStore.save`."""
        text = json.dumps(checkpoint.to_json())
        row = (checkpoint.exec_id, checkpoint.timestamp, text)

        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO graph_checkpoints VALUES (?, ?, ?)", row)
            db.execute("DELETE FROM graph_calls WHERE exec_id = ?", row[:1])

        await self._do(write)

    async def load(self, exec_id: str) -> Checkpoint | None:
        """See `CheckpointStore.load`."""
        query = "SELECT checkpoint FROM graph_checkpoints WHERE exec_id = ?"
        row = await self._do(lambda db: db.execute(query, (exec_id,)).fetchone())
        return None if row is None else read_checkpoint(row[0], str(self.path))

    async def list(self) -> list[str]:
        """See `CheckpointStore.list`."""
        query = "SELECT exec_id FROM graph_checkpoints ORDER BY exec_id"
        return [row[0] for row in await self._do(lambda db: db.execute(query).fetchall())]

    async def delete(self, exec_id: str) -> None:
        """See `CheckpointStore.delete`."""

        def remove(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM graph_checkpoints WHERE exec_id = ?", (exec_id,))
            db.execute("DELETE FROM graph_calls WHERE exec_id = ?", (exec_id,))

        await self._do(remove)

    async def calls(self, exec_id: str, wave: str) -> dict[str, Any]:
        """See `CallRecord.calls`."""
        query = "SELECT call, result FROM graph_calls WHERE exec_id = ? AND wave = ?"
        rows = await self._do(lambda db: db.execute(query, (exec_id, wave)).fetchall())
        return {call: json.loads(result) for call, result in rows}

    async def record(self, exec_id: str, wave: str, calls: Mapping[str, Any]) -> None:
        """See `CallRecord.record`."""
        rows = [(exec_id, wave, call, json.dumps(result)) for call, result in calls.items()]
        await self._do(
            lambda db: db.executemany("INSERT OR REPLACE INTO graph_calls VALUES (?, ?, ?, ?)", rows)
        )

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.to_thread(self._work, work)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with closing(sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)) as db:
                if not self._made:
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    db.execute("PRAGMA journal_mode = WAL")
                    db.executescript(_SCHEMA)
                    self._made = True
                db.execute("PRAGMA synchronous = FULL")
                db.execute("BEGIN IMMEDIATE")
                try:
                    done = work(db)
                    db.execute("COMMIT")
                except BaseException:
                    db.execute("ROLLBACK")
                    raise
                return done
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: the checkpoints cannot be used: {error}") from error
