"""Relayed tools: a model calls them, the host runs them.

What it is: a tool that is only declared; its call is a request of kind `tool_call`, and what the host
answers is its result. What it is not: a way to run anything here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolnexus.core.suspension import TOOL_CALL
from toolnexus.core.tools import Tool, ToolResult, pending
from toolnexus.errors import ConfigError
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.builtin.catalog import NAMES

_ANY = {"type": "object"}


def relay_tool(name: str, description: str, input_schema: Mapping[str, Any] = _ANY) -> Tool:
    """A tool that is declared here and run by the host: in a browser, on another machine, by a person.

    Its arguments are checked against `input_schema`, and rules and hooks hold as for any tool. All calls
    of a turn are one `Request` of kind `tool_call`, with `data["calls"]`, a list of `{"id", "name",
    "input", "arguments"}` (the last one is the input as JSON text). It is answered in place by
    `on_request`, or with `client.resume`, with `data={"results": [{"id", "output", "isError"}]}`: one
    for each call, `output` a text or any JSON value, `isError` left out for false.

    Raises `ConfigError` for the name of a builtin: rules about that one would not hold for it.
    """
    if name in NAMES:
        raise ConfigError(f"relayed tool {name!r} has the name of a builtin; give it another")
    return Tool(name, description, input_schema, _relay, source="relay")


async def _relay(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    if ctx.answer is None:
        text = json.dumps(arguments, ensure_ascii=False)
        call = {"id": ctx.call_id, "name": ctx.tool.name, "input": arguments, "arguments": text}
        return pending(kind=TOOL_CALL, prompt=f"{ctx.tool.name} with {text}", data={"calls": [call]})
    result = next(entry for entry in ctx.answer.data["results"] if entry["id"] == ctx.call_id)
    output = result["output"]
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return ToolResult(output=text, is_error=result.get("isError", False))
