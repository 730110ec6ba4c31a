"""Our client, as the MCP conformance package starts it: conformance_client.py URL.

It calls what the scenario names, else each tool that is offered, and answers what it is asked.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from toolnexus import Answer, Client, Request, Tool
from toolnexus.testing import ScriptedModel, call, reply

VALUES: dict[str, Any] = {
    "string": "text",
    "number": 2,
    "integer": 2,
    "boolean": True,
    "array": [],
    "object": {},
}


def filled(schema: Any) -> dict[str, Any]:
    """A value for each required field."""
    fields = schema.get("properties", {})
    return {name: VALUES[fields[name]["type"]] for name in schema.get("required", ()) if name in fields}


def calls(tools: list[Tool], context: dict[str, Any]) -> list[Any]:
    """What a model calls at once."""
    named = {tool.original_name: tool for tool in tools}
    if given := context.get("toolCalls"):
        return [call(named[one["name"]].name, **one["arguments"]) for one in given if one["name"] in named]
    if "json_schema_2020_12_tool" in named:  # the other one says what it got
        rich = named.pop("json_schema_2020_12_tool")
        return [call(tool.name, schema=rich.input_schema) for tool in named.values()]
    return [call(tool.name, **filled(tool.input_schema)) for tool in tools]


async def answered(request: Request) -> Answer:
    return Answer(id=request.id, data=filled((request.data or {}).get("schema", {})))


async def main(url: str) -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    protocol = "stateless" if os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"] >= "2026" else "handshake"
    servers = {"peer": {"url": url, "protocol": protocol}}

    def turn(request: Any) -> Any:
        if len(request.messages) > 1:
            return "done"
        made = calls(list(client.toolkit), context)
        return reply(*made) if made else "nothing to call"

    client = Client(model=ScriptedModel([turn, turn]), builtins=False, mcp=servers, on_request=answered)
    async with client:
        result = await client.ask("go")
        for message in result.messages:
            for outcome in message.tool_results:
                print(outcome.output[:2000])
        if (status := client.mcp_status()["peer"])["status"] != "connected":
            sys.exit(str(status["reason"]))


asyncio.run(main(sys.argv[1]))
