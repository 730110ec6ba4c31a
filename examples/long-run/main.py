"""A run of forty rounds by a model that could read seven of them at once.

What to look at: what is sent stays below the limit, because older pages give way to notes; what was found on
page 3 is still known at the end, and the transcript has every page.
"""

import asyncio
import os

from script import scripted

from toolnexus import Client, Compacted, UsageReported, compactor, tool

LAST_PAGE = 40
LIMIT = 1_500


@tool
async def page(number: int) -> str:
    """Read one page of the ship's log, 1 to 40."""
    day = f"Day {number}. Wind from the west, all well. "
    if number == 3:
        day += "Took the second anchor aboard at Rabat; it lies below the cook's bunk. "
    return day + "Course and speed as entered. " * 25


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    requests = 0
    async with (
        Client(
            model=model,
            builtins=False,
            tools=[page],
            hooks=[compactor(LIMIT)],
            max_turns=LAST_PAGE + 2,
        ) as client,
        client.stream(
            f"Read all {LAST_PAGE} pages, one after the other. Where is the second anchor?"
        ) as stream,
    ):
        async for event in stream:
            requests += isinstance(event, UsageReported)
            if isinstance(event, Compacted):
                print(
                    f"about {event.before} tokens, now {event.after}: {event.dropped} messages in the notes"
                )

    result = stream.result
    print(f"{result.text}\n{result.turns} turns, {requests} requests, {len(result.messages)} messages kept")


if __name__ == "__main__":
    asyncio.run(main())
