"""Two requests, and where they differ, for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from typing import Any

from toolnexus.models.records.form import Json

_WIDTH = 160
_MOST_LINES = 120
_SAID = {"text": "text", "reasoning": "text", "tool_call": "arguments", "tool_result": "output"}


def difference(recorded: Json, now: Json) -> str:
    """A unified diff of two request views, the messages that are equal at the start left out."""
    first = _first_difference(recorded["messages"], now["messages"])
    skip = max(first - 1, 0)
    lines = list(unified_diff(_page(recorded, skip), _page(now, skip), "recorded", "now", lineterm="", n=3))
    if not lines:  # only in what no page shows
        old, new = (json.dumps(view, indent=1, sort_keys=True).splitlines() for view in (recorded, now))
        lines = list(unified_diff(old, new, "recorded", "now", lineterm="", n=3))
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"… and {len(lines) - _MOST_LINES} more lines"]
    return "\n".join(lines)


def _first_difference(old: list[Json], new: list[Json]) -> int:
    for index, (a, b) in enumerate(zip(old, new, strict=False)):
        if a != b:
            return index
    return min(len(old), len(new))


def _page(view: Json, skip: int) -> list[str]:
    lines = ["system:", *_block(view["system"])]
    for tool in view["tools"]:
        schema = json.dumps(tool["schema"], ensure_ascii=False, sort_keys=True)
        lines += [f"tool {tool['name']}:", *_block(tool["description"]), *_block(f"schema {schema}")]
    if skip:
        lines.append(f"({skip} messages that are the same)")
    for message in view["messages"][skip:]:
        lines.append(f"{message['role']}:")
        for part in message["parts"]:
            lines += _part(part)
    return lines


def _part(part: Json) -> Iterator[str]:
    kind = part["type"]
    if kind == "tool_call":
        yield f"  call {part['id']} of {part['name']}:"
    elif kind == "tool_result":
        yield f"  {'error' if part.get('is_error') else 'result'} of {part['call_id']}:"
    elif kind != "text":
        yield f"  {kind}:"
    shown: Any = part.get(_SAID.get(kind, ""))
    if shown is None:
        rest = {k: v for k, v in part.items() if k != "type"}
        shown = json.dumps(rest, ensure_ascii=False, sort_keys=True)
    yield from _block(shown, "  " if kind == "text" else "    ")
    for media in part.get("media", ()):
        yield from _block(json.dumps(media, ensure_ascii=False, sort_keys=True), "    ")


def _block(text: str, indent: str = "  ") -> Iterable[str]:
    """Lines that fit a screen: long ones are cut into several, so that a difference is where one looks."""
    for line in text.splitlines() or [""]:
        for start in range(0, max(len(line), 1), _WIDTH):
            yield indent + line[start : start + _WIDTH]
