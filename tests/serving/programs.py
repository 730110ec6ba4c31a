"""Programs that serve over their pipes."""

STDIO = '''
import asyncio, os, sys
from toolnexus import Client, serve_stdio, tool
from toolnexus.testing import ScriptedModel

@tool
async def add(a: int, b: int) -> int:
    """Add."""
    print("noise of a tool")
    os.system("echo noise of a program")
    return a + b

@tool
async def hang() -> str:
    """Wait."""
    print("started", file=sys.stderr, flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("cancelled", file=sys.stderr, flush=True)

async def main():
    async with Client(model=ScriptedModel([]), builtins=["question"], tools=[add, hang]) as client:
        print("noise before")
        await serve_stdio(client, mcp={"tools": ["add", "hang"]}, max_body=2000)
    print("closed", file=sys.stderr, flush=True)

asyncio.run(main())
'''
