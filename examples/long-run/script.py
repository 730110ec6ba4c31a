"""What the model says when no real one is set: a page each turn, notes when it is asked for them."""

import re

from toolnexus import Message, ModelRequest, assistant
from toolnexus.testing import ScriptedModel, call

ANCHOR = "The second anchor lies below the cook's bunk (day 3)."


def write_notes(request: ModelRequest) -> str:
    """What a summary keeps: how far it came, and the one thing that matters."""
    text = request.messages[0].text
    last = max(int(day) for day in re.findall(r"Day (\d+)\.", text))
    found = ANCHOR if "cook's bunk" in text else "No anchor yet."
    return f"Day {last}. was the last that I read. {found}"


def read_on(request: ModelRequest) -> Message | str:
    """The next page, or the answer out of what can still be read."""
    if request.turn <= 40:
        return assistant("", call("page", number=request.turn, id=f"page_{request.turn}"))
    return ANCHOR if any(ANCHOR in message.text for message in request.messages) else "I have forgotten."


scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={"main": [read_on] * 41, "main/summary": [write_notes] * 41},
)
