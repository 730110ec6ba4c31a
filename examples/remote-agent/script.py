"""What the model says when no real one is set."""

from toolnexus.testing import ScriptedModel, call, reply

scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={
        "main": [
            reply(
                "",
                call("task", id="price", agent="pricing", prompt="What does an anchor cost?"),
                call("task", id="stock", agent="stock", prompt="How many anchors are there?"),
            ),
            "There are 3 anchors, at 80 EUR each.",
        ],
        "main/stock.stock": [reply("", call("count", thing="anchor")), "3 anchors"],
    },
)
