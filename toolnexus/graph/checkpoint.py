"""Where a run of a graph stands after a wave, and where that is kept."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, cast

from toolnexus.errors import StoreError
from toolnexus.graph.board import BoardSnapshot

VERSION = 1
MOST_RUNS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state after a finished wave. A run goes on with the edges of `steps`; these are not run again.

    `exec_id` is the id of the run, `iteration` how many nodes were routed, times are seconds since the
    epoch.
    """

    exec_id: str
    steps: Sequence[str]
    iteration: int = 0
    board: BoardSnapshot | None
    """Also as the JSON of one."""
    payload: Any = None
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    timestamp: float = 0.0
    original_started_at: float = 0.0
    spec_version: str = ""
    spec_digest: str = ""

    def __post_init__(self) -> None:
        """Raises `ValueError` for what is no checkpoint."""
        board, steps, iteration = cast("tuple[Any, Any, Any]", (self.board, self.steps, self.iteration))
        if not isinstance(self.exec_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"a checkpoint has the id of a run, not {self.exec_id!r}")
        if not isinstance(steps, (list, tuple)) or not all(isinstance(step, str) for step in self.steps):
            raise ValueError(f"the steps of a checkpoint are a list of ids, not {steps!r}")
        if not isinstance(iteration, int) or isinstance(iteration, bool) or iteration < 0:
            raise ValueError(f"the iteration of a checkpoint is a count, not {iteration!r}")
        if isinstance(board, Mapping):
            board = BoardSnapshot.from_json(cast("Mapping[str, Any]", board))
        if board is not None and not isinstance(board, BoardSnapshot):
            raise ValueError(f"the board of a checkpoint is a table, not {type(board).__name__}")
        object.__setattr__(self, "board", board)

    def to_json(self) -> dict[str, Any]:
        """The checkpoint as JSON values."""
        return {
            "v": VERSION,
            "exec_id": self.exec_id,
            "steps": list(self.steps),
            "iteration": self.iteration,
            "board": None if self.board is None else self.board.to_json(),
            "payload": self.payload,
            "attributes": dict(self.attributes),
            "timestamp": self.timestamp,
            "original_started_at": self.original_started_at,
            "spec_version": self.spec_version,
            "spec_digest": self.spec_digest,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Checkpoint:
        """The checkpoint that `to_json` wrote. Raises `ValueError` for anything else."""
        if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"a checkpoint is a table, not {type(data).__name__}")
        given: dict[str, Any] = {"board": None, **data}
        if given.pop("v", VERSION) != VERSION:
            raise ValueError(f"a checkpoint of version {data['v']!r}; this release reads {VERSION}")
        try:
            return cls(**given)
        except TypeError as error:
            raise ValueError(f"not a checkpoint: {error}") from None


class CheckpointStore(Protocol):
    """Keeps the latest checkpoint of each run. A save replaces the one before, whole or not at all."""

    async def save(self, checkpoint: Checkpoint) -> None:
        """Keep it. Raises `StoreError`."""
        ...

    async def load(self, exec_id: str) -> Checkpoint | None:
        """The checkpoint of that run, None when there is none. Raises `StoreError`."""
        ...

    async def list(self) -> list[str]:
        """The runs that have one, sorted."""
        ...

    async def delete(self, exec_id: str) -> None:
        """Forget that run, its calls included."""
        ...


class CallRecord(Protocol):
    """Knows which tool calls of a wave were begun and what they gave, so that a wave that is run again does
    not call them again. A store of checkpoints that has these methods keeps them, too, in runs under a
    client."""

    async def calls(self, exec_id: str, wave: str) -> dict[str, Any]:
        """By call id: None for one that was begun, its result (JSON) for one that ended."""
        ...

    async def record(self, exec_id: str, wave: str, calls: Mapping[str, Any]) -> None:
        """Add to what `calls` gives."""
        ...


class MemoryCheckpoints:
    """Checkpoints as long as the object lives. Keeps the latest 1,024 runs."""

    def __init__(self) -> None:
        self._saved: OrderedDict[str, Checkpoint] = OrderedDict()
        self._calls: OrderedDict[str, dict[str, dict[str, Any]]] = OrderedDict()

    async def save(self, checkpoint: Checkpoint) -> None:
        """See `CheckpointStore.save`."""
        self._saved[checkpoint.exec_id] = checkpoint
        _bounded(self._saved, checkpoint.exec_id)
        self._calls.pop(checkpoint.exec_id, None)  # that wave is over

    async def load(self, exec_id: str) -> Checkpoint | None:
        """See `CheckpointStore.load`."""
        return self._saved.get(exec_id)

    async def list(self) -> list[str]:
        """See `CheckpointStore.list`."""
        return sorted(self._saved)

    async def delete(self, exec_id: str) -> None:
        """See `CheckpointStore.delete`."""
        self._saved.pop(exec_id, None)
        self._calls.pop(exec_id, None)

    async def calls(self, exec_id: str, wave: str) -> dict[str, Any]:
        """See `CallRecord.calls`."""
        return dict(self._calls.get(exec_id, {}).get(wave, {}))

    async def record(self, exec_id: str, wave: str, calls: Mapping[str, Any]) -> None:
        """See `CallRecord.record`."""
        self._calls.setdefault(exec_id, {}).setdefault(wave, {}).update(calls)
        _bounded(self._calls, exec_id)


def _bounded(table: OrderedDict[str, Any], key: str) -> None:
    table.move_to_end(key)
    while len(table) > MOST_RUNS:
        table.popitem(last=False)


class FileCheckpoints:
    """Checkpoints as JSON files of a folder, one a run, replaced atomically."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def _path(self, exec_id: str, kind: str = "json") -> Path:
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", exec_id)[:60]
        return self._folder / f"{plain}-{sha256(exec_id.encode()).hexdigest()[:16]}.{kind}"

    async def save(self, checkpoint: Checkpoint) -> None:
        """See `CheckpointStore.save`."""
        text = json.dumps(checkpoint.to_json())
        await asyncio.to_thread(self._write, self._path(checkpoint.exec_id), text)
        await asyncio.to_thread(self._path(checkpoint.exec_id, "calls").unlink, missing_ok=True)

    def _write(self, path: Path, text: str) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(f".{os.getpid()}.{os.urandom(4).hex()}.part")
            with part.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            raise StoreError(f"{path}: the checkpoint cannot be written: {error}") from error

    async def load(self, exec_id: str) -> Checkpoint | None:
        """See `CheckpointStore.load`."""
        path = self._path(exec_id)
        try:
            text = await asyncio.to_thread(path.read_text, "utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"{path}: the checkpoint cannot be read: {error}") from error
        return read_checkpoint(text, str(path))

    async def list(self) -> list[str]:
        """See `CheckpointStore.list`."""
        found = await asyncio.to_thread(lambda: [p.read_text("utf-8") for p in self._folder.glob("*.json")])
        return sorted(read_checkpoint(text, str(self._folder)).exec_id for text in found)

    async def delete(self, exec_id: str) -> None:
        """See `CheckpointStore.delete`."""
        for kind in ("json", "calls"):
            await asyncio.to_thread(self._path(exec_id, kind).unlink, missing_ok=True)

    async def calls(self, exec_id: str, wave: str) -> dict[str, Any]:
        """See `CallRecord.calls`."""
        try:
            text = await asyncio.to_thread(self._path(exec_id, "calls").read_text, "utf-8")
        except FileNotFoundError:
            return {}
        out: dict[str, Any] = {}
        for line in text.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:  # torn by a crash
                continue
            if entry["wave"] == wave:
                out.update(entry["calls"])
        return out

    async def record(self, exec_id: str, wave: str, calls: Mapping[str, Any]) -> None:
        """See `CallRecord.record`."""
        line = json.dumps({"wave": wave, "calls": dict(calls)})
        await asyncio.to_thread(self._append, self._path(exec_id, "calls"), line)

    def _append(self, path: Path, line: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())


def read_checkpoint(text: str, where: str) -> Checkpoint:
    """The checkpoint of a JSON text. Raises `StoreError` that begins with `where`."""
    try:
        return Checkpoint.from_json(cast("dict[str, Any]", json.loads(text)))
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{where}: not a checkpoint: {error}") from error


def now() -> float:
    """Seconds since the epoch."""
    return time.time()
