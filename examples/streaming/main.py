"""A tree of runs, watched while it grows.

What to look at: events of both sub-agents arrive as they happen, each with the path of its run; text
comes in pieces. The result afterwards is the one that `ask` would have given.
"""

import asyncio
import os

from script import scripted

from toolnexus import (
    Agent,
    Client,
    SubAgentFinished,
    SubAgentStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    tool,
)


@tool
async def measure(city: str) -> str:
    """Measure the temperature in a city."""
    await asyncio.sleep(0.1)
    return {"Oslo": "4 degrees", "Rome": "19 degrees"}.get(city, "no station there")


forecaster = Agent(
    name="forecaster",
    description="Measures and says what to wear in one city.",
    system_prompt="Measure first. Then one short sentence.",
    tools=[measure],
)


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    writing = False  # whether the line that the model writes is still open
    async with (
        Client(model=model, builtins=False, agents=[forecaster]) as client,
        client.stream("What do I wear in Oslo and in Rome? One forecaster per city, both at once.") as stream,
    ):
        async for event in stream:
            margin = "  " * len(event.path) + f"{event.path[-1]}: "
            is_text = isinstance(event, TextDelta) and len(event.path) == 1
            if writing and not is_text:
                print()
            if is_text and not writing:
                print(margin, end="")
            writing = is_text
            match event:
                case TextDelta() if is_text:
                    print(event.text, end="", flush=True)
                case ToolStarted():
                    print(f"{margin}{event.name} {dict(event.arguments or {})}")
                case ToolFinished():
                    print(f"{margin}{event.name} -> {event.result.output}")
                case SubAgentStarted():
                    print(f"{margin}starts {event.child[-1]}")
                case SubAgentFinished():
                    print(f"{margin}{event.child[-1]} is {event.result.status}")
                case _:
                    pass

    print(f"\n{stream.result.status}, {stream.result.usage.total_tokens} tokens in all")


if __name__ == "__main__":
    asyncio.run(main())
