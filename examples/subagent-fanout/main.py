"""Two sub-agents search two services at the same time.

What to look at: both start before the first one ends; the caller's transcript gains one result per
task, whatever was done for it; `usage` counts everybody.
"""

import asyncio
import os
from pathlib import Path

from script import scripted

from toolnexus import Agent, Client, SubAgentFinished, SubAgentStarted

SERVICES = Path(__file__).parent / "services"
QUESTION = """Which of the services billing/ and shop/ still use the old payment call chargeV1?
Delegate one search per service, both in one turn."""

# The description is what the calling model chooses by; the list is all that the agent may use.
searcher = Agent(
    name="searcher",
    description="Searches the source code of one service and reports file and line.",
    system_prompt="Search the folder you are given. Answer with file, line and what is there, nothing else.",
    tools=["grep", "read"],
)


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    async with Client(model=model, builtins=["grep", "read"], agents=[searcher], workdir=SERVICES) as client:
        # `await client.ask(QUESTION)` gives the same result; a stream shows the way to it.
        async with client.stream(QUESTION) as stream:
            async for event in stream:
                if isinstance(event, SubAgentStarted):
                    print(f"  {event.child[-1]} starts: {event.prompt}")
                elif isinstance(event, SubAgentFinished):
                    print(f"  {event.child[-1]} ends")
        result = stream.result

    print(f"\n{result.text}\n")
    print(f"the caller: {result.turns} turns, {len(result.messages)} messages")
    for child in result.sub_agents:
        print(f"  {child.path[-1]}: {child.turns} turns, {child.tool_calls} tool calls -> {child.text!r}")
    for agent, used in result.usage.by("agent").items():
        print(f"tokens of {agent}: {used.total_tokens}")


if __name__ == "__main__":
    asyncio.run(main())
