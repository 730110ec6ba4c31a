"""What the model says when no real one is set: it loads the skill, then does what it says."""

from toolnexus.testing import ScriptedModel, call, reply

scripted = ScriptedModel(
    [
        reply("", call("skill", name="restock")),
        reply("", call("shop_levels")),
        reply("", call("shop_order", item="tea", count=17), call("shop_order", item="cocoa", count=20)),
        "Ordered 17 tea and 20 cocoa; there is enough coffee.",
    ],
    name="a script (set TOOLNEXUS_MODEL for a real one)",
)
