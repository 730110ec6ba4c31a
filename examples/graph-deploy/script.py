"""What the model says when no real one is set."""

from toolnexus.testing import ScriptedModel

scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    replies=[
        "Rain is water that falls from the clouds on all who forgot their hats.",
        "Rain finds those without a hat.",
    ],
)
