"""What `toolnexus demo` runs: a client, two agents, one ask."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from toolnexus import Agent, Client
from toolnexus.cli.demo.kit import FILES_SERVER, GOAL, REPORT, new_folder, scripted_model

EXPLORE = Agent(name="explore", description="Searches files.", tools=["files_list", "files_read", "grep"])
REVIEW = Agent(name="review", description="Reviews, reports.", tools=["skill", "read", "write"])


def demo_client(folder: Path, model: Any, explore: Agent = EXPLORE, **options: Any) -> Client:
    return Client(
        model=model,
        mcp={"files": {"command": sys.executable, "args": ["-I", FILES_SERVER, str(folder)]}},
        skills=folder / "skills",
        builtins=["read", "grep", "write"],
        agents=[explore, REVIEW],
        workdir=folder,
        **options,
    )


async def main() -> None:
    folder = new_folder()
    async with demo_client(folder, scripted_model()) as client:
        result = await client.ask(GOAL)
    print(result.text, f"{result.usage.total_tokens} tokens, {folder / REPORT}", sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
