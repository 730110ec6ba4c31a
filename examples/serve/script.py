"""What the model of the example says, so that it runs without a key."""

from toolnexus.testing import ScriptedModel, call, reply

scripted = ScriptedModel(
    [
        reply(call("order", item="tea", count=20)),
        "20 packs of tea are on their way.",
    ],
    name="a script (set TOOLNEXUS_MODEL for a real one)",
)
