"""What the model says when no real one is set. The reader reads four pages a turn."""

from toolnexus.testing import ScriptedModel, call, reply

scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={
        "main": [
            reply("", call("task", id="report", agent="reader", prompt="Which page has the best January?")),
            "Page 7 has the best January, with 90 orders.",
        ],
        "main/reader.report": [
            *[reply("", *[call("page", number=n) for n in range(first, first + 4)]) for first in (1, 5, 9)],
            "Page 7: 90 orders in January.",
        ],
    },
)
