"""What the model says when no real one is set, word by word like a real one."""

import asyncio
from collections.abc import AsyncIterator, Callable

from toolnexus import ModelRequest
from toolnexus.testing import ScriptedModel, call, reply


def spoken(text: str) -> Callable[[ModelRequest], AsyncIterator[str]]:
    """A reply that comes in pieces."""

    async def say(request: ModelRequest) -> AsyncIterator[str]:
        for word in text.split(" "):
            await asyncio.sleep(0.02)
            yield word + " "

    return say


scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={
        "main": [
            reply(
                "",
                call("task", id="oslo", agent="forecaster", prompt="What to wear in Oslo?"),
                call("task", id="rome", agent="forecaster", prompt="What to wear in Rome?"),
            ),
            spoken("Oslo wants a coat and gloves, Rome a light jacket."),
        ],
        "main/forecaster.oslo": [reply("", call("measure", city="Oslo")), spoken("A coat and gloves.")],
        "main/forecaster.rome": [reply("", call("measure", city="Rome")), spoken("A light jacket.")],
    },
)
