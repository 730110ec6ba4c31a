"""What the model says when no real one is set: it takes a picture, then compares the two."""

from toolnexus.testing import ScriptedModel, call, reply

scripted = ScriptedModel(
    [
        reply("Five boxes this morning. I look again.", call("camera", shelf="A")),
        "Five red boxes this morning, three now: two were taken from shelf A.",
    ],
    name="a script (set TOOLNEXUS_MODEL for a real one)",
)
