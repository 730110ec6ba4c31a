"""Release notes by three hands: split the work, delegate the parts, put the answers together.

What to look at: the caller sees neither commit list, only what its two writers made of them; the
style guide goes to both word for word, as `context`.
"""

import asyncio
import os

from script import scripted

from toolnexus import Agent, Client, tool

COMMITS = {
    "features": ["a1f Add CSV export", "b7c Search by tag", "c02 Dark theme (#81)"],
    "fixes": ["d9e Fix crash on empty cart", "e5a Correct rounding of totals"],
}


@tool
def commits(kind: str) -> str:
    """The commits of this release: kind is "features" or "fixes"."""
    return "\n".join(COMMITS[kind])


writer = Agent(
    name="writer",
    description="Turns the commits of one kind (features or fixes) into a list for users.",
    system_prompt="Read the commits of your kind, then write one line for users per commit.",
    tools=[commits],
)

LEAD = """You write release notes.
1. Split: features and fixes are separate pieces of work.
2. Delegate both in one turn, and give each writer the style guide as context.
3. Reduce: put the lists under headings, most important first, and add one sentence on top."""


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    async with Client(model=model, system_prompt=LEAD, builtins=False, agents=[writer]) as client:
        result = await client.ask("Write the notes for 2.4. Style guide: no numbers of commits or issues.")

    print(f"\n{result.text}\n")
    print(f"status: {result.status}")
    for child in result.sub_agents:
        print(f"  {'/'.join(child.path)}: {child.status}, {child.usage.total_tokens} tokens")


if __name__ == "__main__":
    asyncio.run(main())
