"""The builtin `question`: the run waits for a person."""

from __future__ import annotations

import json
from typing import Any

from toolnexus.core.tools import ToolResult, pending
from toolnexus.runtime.context import ToolContext


async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    """The answer, once there is one; before that a request of kind `question`."""
    questions: list[dict[str, Any]] = arguments["questions"]
    if ctx.answer is None:
        prompt = "\n".join([_asked(question) for question in questions])
        return pending(kind="question", prompt=prompt, data={"questions": questions})
    answer = ctx.answer.data
    return ToolResult(output=answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))


def _asked(question: dict[str, Any]) -> str:
    options = question.get("options")
    return f"{question['question']} ({' / '.join(options)})" if options else question["question"]
