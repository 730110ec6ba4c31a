"""The builtin `grep`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolnexus.core.tools import ToolResult
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.builtin.bounded import Clock, in_time
from toolnexus.tools.builtin.globs import Glob
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.builtin.paths import (
    check_kind,
    closed_below,
    names_note,
    not_found,
    printable,
    resolve,
    root_of,
    shown,
)
from toolnexus.tools.builtin.places import deepest
from toolnexus.tools.builtin.search import Hit, search
from toolnexus.tools.builtin.walk import Skipped, walk

_LIMITS = definition("grep").limits


async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    """The lines that match, `path:line:text`, sorted by path and line."""
    clock = Clock(_LIMITS["seconds"], "choose a smaller `path` or `include`, or a simpler pattern")
    skipped = Skipped()
    base, files = await in_time(clock, lambda: _files(arguments, ctx, skipped, clock))
    limit = min(int(arguments.get("limit") or _LIMITS["defaultLimit"]), _LIMITS["maxLimit"])
    pattern = str(arguments["pattern"])
    found = await search(pattern, files, base, limit, clock, str(root_of(ctx)))
    for name in found.binary:
        skipped.add("matching binary file", name)
    for name in found.unreadable:
        skipped.add("unreadable file", name)
    for name in found.overlong:
        skipped.add("overlong line", name)
    lines = await in_time(clock, lambda: _lines(found.hits[:limit], base, ctx))
    if not lines:
        lines = [f"No line matches {pattern!r} ({len(files)} file{'' if len(files) == 1 else 's'} searched)."]
    elif len(found.hits) > limit:
        lines.append(
            f"[the first {limit} matching lines, there are more: narrow the search or raise the limit]"
        )
    lines += names_note(hit.file for hit in found.hits[:limit])
    if note := skipped.note():
        lines.append(note)
    return ToolResult(output="\n".join(lines), metadata={"count": min(len(found.hits), limit)})


def _files(
    arguments: dict[str, Any], ctx: ToolContext, skipped: Skipped, clock: Clock
) -> tuple[Path, list[str]]:
    """The folder to search in, and the files in it, sorted. One file named outright is taken as it is."""
    path = str(arguments.get("path") or ".")
    start = resolve(path, ctx, reading=True)
    try:
        with deepest(start) as (folder, names):
            found = folder.find(names[0]) if len(names) == 1 else None
    except OSError as error:
        raise ToolError(f"{path!r} cannot be entered: {error.strerror}") from error
    if names:
        if found is None:
            raise not_found(start, path)
        check_kind(found.st_mode, path)
        if "\n" in start.name:
            raise ToolError(f"{path!r} has a line break in its name and cannot be searched")
        return start.parent, [start.name]
    include = str(arguments.get("include") or "*")
    glob = Glob(include if "/" in include else f"**/{include}")
    return start, sorted(walk(start, root_of(ctx), glob, skipped, clock, closed_below(start, ctx)))


def _lines(hits: list[Hit], base: Path, ctx: ToolContext) -> list[str]:
    prefix = "" if base == root_of(ctx) else shown(base, ctx) + "/"
    return [f"{prefix}{printable(hit.file)}:{hit.number}:{_cut(hit.text)}" for hit in hits]


def _cut(text: str) -> str:
    longest = _LIMITS["maxLineCharacters"]
    return text if len(text) <= longest else text[:longest] + " [… line cut]"
