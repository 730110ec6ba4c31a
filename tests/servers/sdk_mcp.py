"""An MCP server for tests made with the official SDK; it speaks both eras.

Over stdio, or with `--http` over streamable HTTP (prints `PORT <n>` first).
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

FORM = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}
ANYTHING = {"type": "object"}

bus = InMemorySubscriptionBus()
tools: dict[str, dict[str, Any]] = {
    "add": NUMBERS,
    "fail": ANYTHING,
    "steps": ANYTHING,
    "ask": ANYTHING,
    "change": ANYTHING,
    "era": ANYTHING,
    "wait": ANYTHING,
}


def said(text: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], **more)


async def on_list(ctx: Any, params: Any) -> types.ListToolsResult:
    names, at = list(tools), int(params.cursor) if params and params.cursor else 0
    page = [types.Tool(name=n, description=n, input_schema=tools[n]) for n in names[at : at + 3]]
    return types.ListToolsResult(tools=page, next_cursor=str(at + 3) if at + 3 < len(names) else None)


async def on_call(ctx: Any, params: Any) -> types.CallToolResult | types.InputRequiredResult:
    arguments: dict[str, Any] = params.arguments or {}
    name: str = params.name
    match name:
        case "add":
            return said("", structured_content={"sum": arguments["a"] + arguments["b"]})
        case "fail":
            return said("no luck", is_error=True)
        case "era":
            return said(ctx.protocol_version)
        case "wait":
            await anyio.sleep(arguments.get("seconds", 60))
            return said("waited")
        case "steps":
            for step in range(4):
                await ctx.session.report_progress(step + 1, 4, f"step {step + 1}")
                await anyio.sleep(0.02)
            return said("stepped")
        case "ask":
            return await ask(ctx, params)
        case "change":
            tools["fresh"] = ANYTHING
            tools.pop("fail", None)
            await bus.publish(ToolsListChanged())
            if ctx.protocol_version < "2026":
                await ctx.session.send_tool_list_changed()
            return said("changed")
        case _ if name in tools:
            return said(f"{name} ran")
        case _:
            raise MCPError(types.INVALID_PARAMS, f"unknown tool {name}")


async def ask(ctx: Any, params: Any) -> types.CallToolResult | types.InputRequiredResult:
    if ctx.protocol_version < "2026":
        answer = await ctx.session.elicit_form("Which city?", FORM, related_request_id=ctx.request_id)
        return said(f"{answer.action} {answer.content}")
    if params.input_responses is None:
        form = types.ElicitRequestFormParams(message="Which city?", requested_schema=FORM)
        return types.InputRequiredResult(
            request_state="asked", input_requests={"city": types.ElicitRequest(params=form)}
        )
    answer = params.input_responses["city"]
    return said(f"{answer.action} {answer.content}")


server: Server[Any] = Server(
    "official",
    version="1",
    on_list_tools=on_list,
    on_call_tool=on_call,
    on_subscriptions_listen=ListenHandler(bus),
)


async def run_stdio() -> None:
    async with stdio_server() as (read, write):
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        await server.run(read, write, options)


async def run_http(port: int) -> None:
    import uvicorn

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    print("PORT", listener.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error", timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    if "--http" in sys.argv:
        asyncio.run(run_http(int(sys.argv[sys.argv.index("--http") + 1])))
    else:
        anyio.run(run_stdio)
