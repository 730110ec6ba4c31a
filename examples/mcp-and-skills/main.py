"""Tools from an MCP server, instructions from a skill folder.

What to look at: the server's tools carry its name, the skill is loaded by the model when it needs it,
and nothing is left running at the end.
"""

import asyncio
import os
import sys
from pathlib import Path

from script import scripted

from toolnexus import Client

HERE = Path(__file__).parent

# The same shape as the mcp.json of other hosts; a path to such a file works as well.
SERVERS = {"mcpServers": {"shop": {"command": sys.executable, "args": [str(HERE / "server.py")]}}}


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    async with Client(model=model, mcp=SERVERS, skills=HERE / "skills", builtins=False) as client:
        print("servers:", client.mcp_status())
        print("tools:", ", ".join(client.toolkit.names()))
        result = await client.ask("Restock the shop by our rules.")

    print("\nwhat it did:")
    for message in result.messages:
        for call in message.tool_calls:
            print(f"  {call.name} {call.arguments}")
        for answer in message.tool_results:
            first, *more = answer.output.splitlines()
            print(f"    {first}{f' … {len(more)} more lines' if more else ''}")
    print(f"\n{result.text}")


if __name__ == "__main__":
    asyncio.run(main())
