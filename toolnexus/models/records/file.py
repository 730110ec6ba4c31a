"""The file of a record: JSON lines, version 1. The format is described in `docs/testing.md`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, cast

from toolnexus.core.values import mutable
from toolnexus.errors import ConfigError
from toolnexus.models.records.form import Json, digest, message_view, tools_view

VERSION = 1
_KINDS = ("tools", "request", "tool")


@mutable(kw_only=True)
class Exchange:
    """One request and what became of it."""

    line: int
    path: tuple[str, ...]
    turn: int
    model: str
    view: Json
    """What the model read: `system`, `tools`, `messages`."""
    outcome: Json
    """With `reply`, `error` or `cancelled`."""

    @property
    def where(self) -> str:
        return f"run {'/'.join(self.path)!r}, turn {self.turn}"


@mutable(kw_only=True)
class ToolRun:
    """What one call of a tool gave."""

    line: int
    path: tuple[str, ...]
    call_id: str
    result: Json


@mutable(kw_only=True)
class Record:
    """A record that was read."""

    where: str
    header: Json
    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    tool_runs: list[ToolRun] = field(default_factory=list[ToolRun])
    tools: list[Json] = field(default_factory=list[Json])
    """Every tool that was offered to anybody, each once."""

    def has_runs_below(self, path: tuple[str, ...], call_id: str) -> bool:
        """Whether the call started a run."""
        depth = len(path)
        started = {e.path[depth] for e in self.exchanges if e.path[:depth] == path and len(e.path) > depth}
        return any(s.endswith(f".{call_id}") or f".{call_id}~" in s for s in started)


class RecordWriter:
    """Writes one line at a time; a process that dies leaves what was complete."""

    def __init__(self, path: str | os.PathLike[str], header: Mapping[str, Any]) -> None:
        """Raises `ConfigError` when the file cannot be written, or holds something else than a record."""
        self._path = Path(path)
        self._tools: set[str] = set()
        self._count = 0
        self._began = time.monotonic()
        try:
            if self._path.exists() and self._path.stat().st_size:
                read_record(self._path, lines=1)
            # others must not read what somebody asked
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        except ConfigError as error:
            raise ConfigError(f"{error}; it is left alone, record to another file") from None
        except OSError as error:
            raise ConfigError(f"cannot record to {str(path)!r}: {error.strerror}") from None
        self._write({"type": "record", "v": VERSION, **header})

    def exchange(self, entry: Json) -> int:
        """Write a request with its outcome. Gives its number."""
        self._count += 1
        self._write({"type": "request", "n": self._count, **entry})
        return self._count

    def tools(self, forms: list[Json]) -> str:
        """Write a list of tools unless it is there. Gives its name."""
        name = digest(forms)
        if name not in self._tools:
            self._tools.add(name)
            self._write({"type": "tools", "id": name, "tools": forms})
        return name

    def tool_run(self, entry: Json) -> None:
        self._write({"type": "tool", **entry})

    @property
    def seconds(self) -> float:
        """Since the record began."""
        return round(time.monotonic() - self._began, 3)

    def _write(self, entry: Json) -> None:
        try:
            line = json.dumps(entry, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:  # half a character pair, as some models write them
            line = json.dumps(entry, default=str).encode()
        with open(self._path, "ab") as file:
            file.write(line + b"\n")


def read_record(path: str | os.PathLike[str], *, lines: int | None = None) -> Record:
    """The record in a file. A last line that was cut off is left out.

    Raises `ConfigError` that names file and line.
    """
    where = str(path)
    try:
        content = Path(path).read_bytes() if lines is None else _beginning(path)
    except OSError as error:
        raise ConfigError(f"cannot read the record {where!r}: {error.strerror}") from None
    given = _lines(content, where)
    first = next(given, None)
    if first is None or first[1].get("type") != "record":
        raise ConfigError(f"{where!r} is no record of a run: it does not begin with a line of type 'record'")
    header = first[1]
    if header.get("v") != VERSION:
        raise ConfigError(
            f"{where!r} is a record of version {header.get('v')!r}; this release reads {VERSION}"
        )
    record = Record(where=where, header=header)
    if lines is None:
        _Reading(record).all(given)
        _settle_questions(record)
    return record


def _beginning(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        return file.readline(1 << 20)


def _lines(content: bytes, where: str) -> Iterator[tuple[int, Json]]:
    rows = content.split(b"\n")
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        try:
            entry: Any = json.loads(row)
        except ValueError as error:
            if number == len(rows) and number > 1:
                return  # whoever wrote it died meanwhile
            raise ConfigError(f"{where!r}, line {number}: {_no_json(number)}") from error
        if not isinstance(entry, dict):
            raise ConfigError(f"{where!r}, line {number}: {_no_json(number)}")
        yield number, cast(Json, entry)


def _no_json(number: int) -> str:
    return "no record of a run" if number == 1 else "no JSON object"


class _Reading:
    """Puts requests together: each line holds only what its run had not said before."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._tools: dict[str, list[Json]] = {}
        self._requests: dict[int, tuple[Exchange, list[Json]]] = {}

    def all(self, lines: Iterator[tuple[int, Json]]) -> None:
        for number, entry in lines:
            try:
                self._one(number, entry)
            except (LookupError, TypeError, AttributeError, ValueError) as error:
                what = f"{type(error).__name__} {error}"
                raise ConfigError(f"{self._record.where!r}, line {number}: not understood: {what}") from error

    def _one(self, number: int, entry: Json) -> None:
        kind = entry["type"]
        if kind == "tools":
            self._tools[entry["id"]] = tools_view(entry["tools"])
            known = self._record.tools
            known += [form for form in entry["tools"] if form not in known]
        elif kind == "request":
            self._request(number, entry)
        elif kind == "tool":
            self._tool(number, entry)
        else:
            raise ValueError(f"type {kind!r}; known: {list(_KINDS)}")

    def _request(self, number: int, entry: Json) -> None:
        before, known = self._requests[entry["after"]] if "after" in entry else (None, [])
        kept = known[: entry.get("keep", len(known))]
        tools = entry.get("tools")
        inherited: Json = {} if before is None else before.view
        view: Json = {
            "system": entry["system"] if "system" in entry else inherited["system"],
            "tools": self._tools[tools] if tools is not None else inherited["tools"],
            "messages": [*kept, *entry["messages"]],
        }
        outcome = {key: entry[key] for key in ("reply", "error", "cancelled") if key in entry}
        if len(outcome) != 1:
            raise ValueError("a request needs one of 'reply', 'error' and 'cancelled'")
        exchange = Exchange(
            line=number,
            path=tuple(entry["path"]),
            turn=entry["turn"],
            model=entry["model"],
            view=view,
            outcome=outcome,
        )
        self._record.exchanges.append(exchange)
        self._requests[entry["n"]] = (exchange, after(view["messages"], outcome))

    def _tool(self, number: int, entry: Json) -> None:
        done = ToolRun(line=number, path=tuple(entry["path"]), call_id=entry["id"], result=entry["result"])
        runs = self._record.tool_runs
        if entry.get("answered"):  # it takes the place of the question that it asked
            asked = [r for r in runs if (r.path, r.call_id) == (done.path, done.call_id)]
            if asked:
                runs.remove(asked[-1])
        runs.append(done)


def _settle_questions(record: Record) -> None:
    """A question that was declined, or that nobody could answer: its call gave what its run read then."""
    for done in record.tool_runs:
        if "requests" not in done.result:
            continue
        for exchange in record.exchanges:
            if exchange.path == done.path and exchange.turn > 1 and exchange.line > done.line:
                parts = [part for message in exchange.view["messages"] for part in message["parts"]]
                found = [p for p in parts if p["type"] == "tool_result" and p["call_id"] == done.call_id]
                if found:
                    done.result = {key: found[0][key] for key in ("output", "is_error") if key in found[0]}
                    break


def after(messages: Sequence[Json], outcome: Json) -> list[Json]:
    """What a run had said when the request was over."""
    if "reply" not in outcome:
        return list(messages)
    return [*messages, message_view(outcome["reply"]["message"], str)]
