"""A picture in the prompt, and another one from a tool.

What to look at: `MediaPart.from_file` reads a file and knows what it is; a tool returns an image just
as it is. Each style of endpoint gets both in its own form.
"""

import asyncio
import os
from pathlib import Path

from camera import picture
from script import scripted

from toolnexus import Client, MediaPart, tool

HERE = Path(__file__).parent


@tool
async def camera(shelf: str) -> bytes:
    """Take a picture of a shelf, as it is now."""
    return picture(boxes=3)


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    morning = MediaPart.from_file(HERE / "shelf.png")
    print("the prompt's image:", morning.name, morning.mime_type)

    async with Client(model=model, builtins=False, tools=[camera]) as client:
        result = await client.ask(
            ["This is shelf A this morning. Look at it now: what has changed?", morning]
        )

    for message in result.messages:
        for answer in message.tool_results:
            print("the tool's image:", ", ".join([part.mime_type for part in answer.media]) or "none")
    print(f"\n{result.text}")


if __name__ == "__main__":
    asyncio.run(main())
