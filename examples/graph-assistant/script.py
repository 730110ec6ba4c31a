"""What the model says when no real one is set."""

from toolnexus.testing import ScriptedModel, call, reply

scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    replies=[
        reply(call("read_day", day=3), call("read_day", day=9)),
        "One: the second came aboard on day 3, the first was lost on day 9.",
    ],
)
