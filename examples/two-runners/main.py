"""One workflow, two providers: a part of the tree runs on another model, everything else stays.

What to look at: `with_runner` stands where the tree is assembled; the sibling keeps the model of the client;
usage and limits are those of one run.
"""

import asyncio
import os

from script import scripted, second

from toolnexus import Agent, Client
from toolnexus.workflow import AgentStep, Fn, ModelRunner, Parallel, Sequential, with_runner

drafter = Agent(name="drafter", system_prompt="Draft a headline for the text.", tools=[])
shortener = Agent(name="shortener", system_prompt="Make the headline half as long.", tools=[])
translator = Agent(name="translator", system_prompt="Translate the text into French.", tools=[])


def joined(parts: list[str]) -> str:
    """Both branches in one text."""
    return "\n".join(parts)


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL")
    first = model or scripted
    other = os.environ.get("TOOLNEXUS_SECOND_MODEL") or model or second
    print("model:", first if isinstance(first, str) else first.name)

    headline = Sequential(AgentStep(drafter), AgentStep(shortener), name="headline")
    flow = Sequential(
        Parallel(with_runner(headline, ModelRunner(other)), AgentStep(translator)), Fn(joined), name="paper"
    )
    async with Client(model=first, builtins=False) as client:
        result = await client.run(flow, "The ferry will not run on Sunday.")

    print(f"\n{result.output}\n")
    for name, used in result.usage.by("model").items():
        print(f"{name}: {used.requests} requests, {used.total_tokens} tokens")


if __name__ == "__main__":
    asyncio.run(main())
