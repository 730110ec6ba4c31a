"""The builtin `write`."""

from __future__ import annotations

from typing import Any

from toolnexus.core.tools import ToolResult
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.builtin.bounded import Clock, in_time
from toolnexus.tools.builtin.changes import replace_file
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.builtin.paths import resolve
from toolnexus.tools.builtin.text_file import encoded
from toolnexus.tools.builtin.turns import turn

_LIMITS = definition("write").limits


async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    """Replace or create one file."""
    clock = Clock(_LIMITS["seconds"], "the file was left as it was")
    return await in_time(clock, lambda: _write(arguments, ctx, clock))


def _write(arguments: dict[str, Any], ctx: ToolContext, clock: Clock) -> ToolResult:
    path, content = str(arguments["path"]), str(arguments["content"])
    data = encoded(content, "content")
    target = resolve(path, ctx)
    with turn(target, clock=clock):
        replace_file(target, path, data, clock)
    return ToolResult(output=f"Wrote {len(data)} bytes to {path}", metadata={"bytes": len(data)})
