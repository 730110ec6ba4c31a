"""The builtin `todowrite`: a list that lives in the transcript of the run that writes it, nowhere else."""

from __future__ import annotations

from typing import Any

from toolnexus.core.tools import ToolResult
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.builtin.loader import definition

_LIMITS = definition("todowrite").limits


async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    """The list as one line per item, and as it is in the metadata."""
    todos: list[dict[str, Any]] = arguments["todos"]
    if len(todos) > _LIMITS["maxTodos"]:
        raise ToolError(f"{len(todos)} todos; a list has at most {_LIMITS['maxTodos']}: join small ones")
    lines: list[str] = []
    seen: set[str] = set()
    for todo in todos:
        _check(todo, seen)
        seen.add(todo["id"])
        lines.append(f"[{'x' if todo['completed'] else ' '}] {' '.join(todo['text'].split())}")
    return ToolResult(
        output="\n".join(lines) or "The list is empty.", metadata={"todos": [dict(todo) for todo in todos]}
    )


def _check(todo: dict[str, Any], seen: set[str]) -> None:
    name, text = todo["id"], todo["text"]
    if len(name) > _LIMITS["maxIdCharacters"]:
        raise ToolError(
            f"the id {name[:20] + '…'!r} is too long; at most {_LIMITS['maxIdCharacters']} characters"
        )
    if name in seen:
        raise ToolError(f"two todos have the id {name!r}; give every todo an id of its own")
    if not text.strip():
        raise ToolError(f"todo {name!r} has no text; say what is to be done")
    if len(text) > _LIMITS["maxTextCharacters"]:
        raise ToolError(
            f"the text of todo {name!r} has {len(text)} characters; at most {_LIMITS['maxTextCharacters']}: "
            "split it or say it shorter"
        )
