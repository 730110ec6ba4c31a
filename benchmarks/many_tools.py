"""An MCP server on stdio with as many tools as it is told: `python -m benchmarks.many_tools 500`."""

from __future__ import annotations

import json
import sys
from typing import Any


def answer(message: dict[str, Any], tools: int) -> dict[str, Any] | None:
    """The result of a request; None: an unknown method."""
    match message["method"]:
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "many", "version": "1"},
            }
        case "ping":
            return {}
        case "tools/list":
            schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
            return {
                "tools": [
                    {"name": f"tool{n}", "description": f"Tool number {n}.", "inputSchema": schema}
                    for n in range(tools)
                ]
            }
        case "tools/call":
            said = f"{message['params']['name']} {message['params']['arguments']['x']}"
            return {"content": [{"type": "text", "text": said}]}
        case _:
            return None


def main() -> None:
    """Answer until stdin ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message, int(sys.argv[1]))
        body = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)


if __name__ == "__main__":
    main()
