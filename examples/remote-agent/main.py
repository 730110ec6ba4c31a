"""A caller that delegates to an agent behind A2A and to one of its own, with the same tool.

What to look at: both are in the catalog of `task`, the remote one with what its card says. It asks
back before it answers; `on_request` answers, and the answer goes to the very task that asked.
"""

import asyncio
import os

from pricing import serving
from script import scripted

from toolnexus import Agent, Answer, Client, RemoteAgent, Request, tool


@tool
def count(thing: str) -> str:
    """Count things in the store room."""
    return {"anchor": "3"}.get(thing, "0")


def answer(request: Request) -> Answer:
    print(f"{(request.data or {}).get('agent')} asks: {request.prompt}")
    return Answer(id=request.id, data="EUR")


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)
    stock = Agent(name="stock", description="Knows what is in the store room.", tools=[count])
    async with serving() as url:
        pricing = RemoteAgent("pricing", url=url)
        async with Client(model=model, builtins=False, agents=[pricing, stock], on_request=answer) as client:
            for agent in client.agents:
                print(f"- {agent.name}: {agent.description}")
            result = await client.ask("How many anchors are there, and what does one cost?")
    for child in result.sub_agents:
        print(f"{child.path[-1]}: {child.text}")
    print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
