"""The builtin `edit`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolnexus.core.tools import ToolResult
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.builtin.bounded import Clock, in_time
from toolnexus.tools.builtin.changes import Change, commit
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.builtin.near_miss import near_miss
from toolnexus.tools.builtin.paths import resolve
from toolnexus.tools.builtin.text_file import BOM, CRLF, LF, Text, encoded, read_text
from toolnexus.tools.builtin.turns import turn

_LIMITS = definition("edit").limits
_LINES = 100
"""How many lines an error names."""


async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    """Replace one text in a file, or all that are equal."""
    clock = Clock(_LIMITS["seconds"], "the file was left as it was")
    return await in_time(clock, lambda: _edit(arguments, ctx, clock))


def _edit(arguments: dict[str, Any], ctx: ToolContext, clock: Clock) -> ToolResult:
    path = str(arguments["path"])
    old = encoded(str(arguments["oldString"]), "oldString")
    new = encoded(str(arguments["newString"]), "newString")
    if not old:
        raise ToolError("oldString is empty; give the text to replace, or set the whole content with write")
    target = resolve(path, ctx)
    with turn(target, clock=clock):
        data, found = read_text(target, path, _LIMITS["maxFileBytes"])
        if data.startswith(BOM) and old.startswith(BOM) and old != BOM:  # the mark is no part of the text
            old, new = old.removeprefix(BOM), new.removeprefix(BOM)
        if old == new:
            raise ToolError(f"oldString and newString are the same; nothing to change in {path!r}")
        changed, count = _replaced(data, old, new, bool(arguments.get("replaceAll")), path, clock)
        commit([Change(target=target, path=path, data=changed, like=found, found=found)], clock)
    text = f"Edited {path} ({count} replacement{'' if count == 1 else 's'})"
    return ToolResult(output=text, metadata={"replacements": count})


def _replaced(data: bytes, old: bytes, new: bytes, every: bool, path: str, clock: Clock) -> tuple[bytes, int]:
    """The new content, and how often `old` was replaced."""
    plain = old.replace(CRLF, LF)
    # who wants other line ends and nothing else means them as they are
    literal = plain == new.replace(CRLF, LF)
    text = Text(data, literal=literal)
    sought = old if literal else plain
    count = text.text.count(sought)
    if not count:
        hint = near_miss(text.text, sought, clock)
        raise ToolError(f"oldString was not found in {path!r}{hint}")
    if not every:
        _check_unique(text, sought, path)
    largest = _LIMITS["maxFileBytes"]
    if len(data) + count * (len(new) + new.count(LF) - len(old)) > largest:
        raise ToolError(f"{path!r} was left as it was: it would have more than {largest} bytes")
    places = _places(text.text, sought, len(sought), clock)
    return text.edited((at, at + len(sought), new) for at in places), count


def _check_unique(text: Text, sought: bytes, path: str) -> None:
    """Raise when there is more than one place, also when the places overlap."""
    places = _places(text.text, sought, 1)
    lines = [text.line(at) for _, at in zip(range(_LINES), places, strict=False)]
    if len(lines) > 1:
        more = " and more" if next(places, None) is not None else ""
        raise ToolError(
            f"oldString is not unique in {path!r}, it is at lines {', '.join(map(str, lines))}{more}; "
            "give more of the text around the one you mean, or set replaceAll to change every one"
        )


def _places(text: bytes, sought: bytes, step: int, clock: Clock | None = None) -> Iterator[int]:
    at = text.find(sought)
    while at >= 0:
        if clock is not None:
            clock.check()
        yield at
        at = text.find(sought, at + step)
