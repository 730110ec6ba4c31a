"""Run by an interpreter that knows only the installed wheel."""

import asyncio
import importlib.resources
import sys

import toolnexus

HEAVY = ("openai", "anthropic", "mcp", "a2a", "httpx", "httpx2", "aiohttp", "pydantic", "yaml", "jsonschema")
assert not [m for m in HEAVY if m in sys.modules], "import toolnexus is not light"
assert (importlib.resources.files("toolnexus") / "py.typed").is_file()


async def main() -> None:
    from toolnexus.testing import ScriptedModel, call, reply

    model = ScriptedModel([reply("", call("glob", pattern="*.txt")), reply("done")])
    async with toolnexus.Client(model=model, builtins=["glob", "read"]) as client:
        assert client.toolkit.names() == ["glob", "read"], client.toolkit.names()
        result = await client.ask("list the text files")
        assert result.status == "done" and result.text == "done", result


asyncio.run(main())
for name in toolnexus.__all__:
    getattr(toolnexus, name)
