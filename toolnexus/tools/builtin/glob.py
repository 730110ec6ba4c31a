"""The builtin `glob`."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from toolnexus.core.tools import ToolResult
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.builtin.bounded import Clock, in_time
from toolnexus.tools.builtin.globs import Glob
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.builtin.paths import closed_below, directory, names_note, printable, root_of, shown
from toolnexus.tools.builtin.walk import Skipped, walk

_LIMITS = definition("glob").limits


async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    """The files that match, relative to the root, sorted."""
    clock = Clock(_LIMITS["seconds"], "choose a smaller folder as `path`")
    return await in_time(clock, lambda: _glob(arguments, ctx, clock))


def _glob(arguments: dict[str, Any], ctx: ToolContext, clock: Clock) -> ToolResult:
    pattern = str(arguments["pattern"])
    start = directory(str(arguments.get("path") or "."), ctx)
    skipped = Skipped()
    pieces = Glob(pattern, alternatives=_LIMITS["maxAlternatives"])
    limit = min(int(arguments.get("limit") or _LIMITS["defaultLimit"]), _LIMITS["maxLimit"])
    found = 0

    def counted() -> Iterator[str]:
        nonlocal found
        for path in walk(start, root_of(ctx), pieces, skipped, clock, closed_below(start, ctx)):
            found += 1
            yield path

    first = heapq.nsmallest(limit, counted())  # so that millions of paths are not kept
    prefix = "" if start == root_of(ctx) else shown(start, ctx) + "/"
    lines = [prefix + printable(path) for path in first]
    if not lines:
        lines = [f"No file below {shown(start, ctx)!r} matches {pattern!r}."]
    elif found > limit:
        lines.append(f"[the first {limit} of {found} files: narrow the pattern or raise the limit]")
    lines += names_note(first)
    if note := skipped.note():
        lines.append(note)
    return ToolResult(output="\n".join(lines), metadata={"count": len(first)})
