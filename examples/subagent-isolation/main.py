"""A sub-agent reads a whole report; its caller reads one sentence.

What to look at: how long the two transcripts are. The pages stay with the sub-agent, its tokens are
counted all the same, and its own transcript is there for whoever wants to see how it got there.
"""

import asyncio
import os

from script import scripted

from toolnexus import Agent, Client, Message, tool

PAGES = 12


@tool
def page(number: int) -> str:
    """Read one page of the yearly report, from 1 to 12."""
    figures = ", ".join(f"{month} {(number * 37 + month * 11) % 90 + 10}" for month in range(1, 13))
    return f"Page {number} of {PAGES}. Orders per month: {figures}. " + "Small print. " * 150


def size(messages: tuple[Message, ...]) -> int:
    """Characters of text and results."""
    return sum(len(m.text) + sum(len(r.output) for r in m.tool_results) for m in messages)


# A function in an agent's own list is the agent's alone: the caller is not offered it.
reader = Agent(
    name="reader",
    description="Reads the yearly report, all of it, and answers one question about it.",
    system_prompt=f"Read pages 1 to {PAGES}, several per turn. Answer in one sentence.",
    tools=[page],
)


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    async with Client(model=model, builtins=False, agents=[reader]) as client:
        result = await client.ask("Have the yearly report read: which page has the best January?")

    print(f"\n{result.text}\n")
    print(f"the caller's transcript: {len(result.messages)} messages, {size(result.messages)} characters")
    for child in result.sub_agents:
        print(f"the reader's transcript: {len(child.messages)} messages, {size(child.messages)} characters")
    print(f"tool calls: {result.tool_calls} of the caller, {result.sub_agent_tool_calls} of its sub-agents")
    print(f"tokens: {result.own_usage.total_tokens} of the caller, {result.usage.total_tokens} in all")


if __name__ == "__main__":
    asyncio.run(main())
