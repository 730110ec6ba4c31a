"""Runs that would go on for ever end, say why, and keep what they had.

What to look at: a limit is a `status`, never a silence and never an exception; `limits_hit` names
every limit of the tree and the run that met it.
"""

import asyncio
import os

from script import scripted

from toolnexus import Agent, Budget, Client, RunResult, tool


@tool
def search(query: str) -> str:
    """Search the archive."""
    return f"Nothing yet for {query!r}. There is more on the next page."


AGENTS = [
    Agent(name="digger", description="Searches until it has found it.", tools=[search], max_turns=2),
    # Nobody stops two agents from delegating to each other; depth and number bound what comes of it.
    Agent(name="ping", description="Asks pong.", agents=["pong"]),
    Agent(name="pong", description="Asks ping.", agents=["ping"]),
]


def show(title: str, result: RunResult) -> None:
    print(f"\n{title}\n  status: {result.status}, limit: {result.limit}, text: {result.text!r}")
    for hit in result.limits_hit:
        print(f"  {hit} was met by {'/'.join(hit.path)}")


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    async with Client(model=model, builtins=False, agents=AGENTS, max_sub_agent_depth=2) as client:
        result = await client.ask("Have the digger find the lost letter.")
        show("a sub-agent at the end of its turns", result)
        for answer in (a for message in result.messages for a in message.tool_results):
            print(f"  what its caller reads: {answer.output!r}")

        show("agents that ask each other", await client.ask("Have ping find out who is right."))

    # A budget holds for the whole tree: the caller's first request and the digger's first are two.
    async with Client(model=model, builtins=False, agents=AGENTS, budget=Budget(requests=2)) as client:
        show("a budget of two requests", await client.ask("Have the digger find the lost letter."))


if __name__ == "__main__":
    asyncio.run(main())
