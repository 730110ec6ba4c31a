"""A workflow: a planner, one researcher for each question at once, then an editor who may ask a critic.

What to look at: the order is written in Python, the work is done by agents; what researchers remember in the
shared slot is there for the critic, three levels down, with nothing handed over.
"""

import asyncio
import os

from script import scripted

from toolnexus import Agent, Client, ToolContext, tool
from toolnexus.workflow import (
    SCRATCHPAD,
    AgentStep,
    CoordinatorStep,
    FanOut,
    Fn,
    Scratchpad,
    Sequential,
    Slot,
)

SOURCES: Slot[list[str]] = Slot("sources", list[str])
PAGES = {"tides": "Tides follow the moon.", "harbour": "The harbour is two metres deep at low water."}


def pad_of(ctx: ToolContext) -> Scratchpad:
    """The shared state of this run: there is always one."""
    pad = ctx.get(SCRATCHPAD)
    assert pad is not None
    return pad


@tool
async def look_up(page: str, ctx: ToolContext) -> str:
    """Read a page, and remember it as a source."""
    pad = pad_of(ctx)
    pad.set(SOURCES, [*(pad.get(SOURCES) or []), page])
    return PAGES.get(page, f"There is no page {page!r}; there are: {', '.join(PAGES)}.")


@tool
async def used_sources(ctx: ToolContext) -> str:
    """The pages that were read so far."""
    return ", ".join(sorted(pad_of(ctx).get(SOURCES) or [])) or "none"


planner = Agent(name="planner", system_prompt="Write two questions, one a line, nothing else.", tools=[])
researcher = Agent(name="researcher", system_prompt="Answer from a page.", tools=[look_up])
critic = Agent(name="critic", description="Says whether the sources will do.", tools=[used_sources])
editor = Agent(name="editor", system_prompt="Write one sentence. Ask the critic first.", tools=[])


def questions(text: str) -> list[str]:
    """One for each line."""
    return [line for line in text.splitlines() if line.strip()]


research = Sequential(
    AgentStep(planner),
    Fn(questions),
    FanOut(AgentStep(researcher), width=4),
    CoordinatorStep(editor, [critic]),
    name="research",
)


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    pad = Scratchpad()
    async with Client(model=model, builtins=False) as client:
        result = await client.run(research, "When can a deep ship leave the harbour?", scratchpad=pad)

    print(f"\n{result.output}\n")
    print("sources:", ", ".join(sorted(pad.get(SOURCES) or [])) or "none")
    for child in result.sub_agents:
        print(f"  {child.path[-1]}: {child.turns} turns, {child.usage.total_tokens} tokens")
    print(f"all: {result.usage.total_tokens} tokens")
    print(f"\n{research.to_mermaid()}")


if __name__ == "__main__":
    asyncio.run(main())
