"""What the model says when no real one is set: the same calls that a real one makes here."""

from toolnexus.testing import ScriptedModel, call, reply

scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={
        "main": [
            reply(
                "I have both services searched at once.",
                call("task", id="billing", agent="searcher", prompt="Find chargeV1 in billing/."),
                call("task", id="shop", agent="searcher", prompt="Find chargeV1 in shop/."),
            ),
            "Only shop still uses chargeV1: checkout.js, line 5. Billing has moved to chargeV2.",
        ],
        "main/searcher.billing": [
            reply("", call("grep", pattern="chargeV1", path="billing"), delay=0.2),
            "No use of chargeV1 in billing/.",
        ],
        "main/searcher.shop": [
            reply("", call("grep", pattern="chargeV1", path="shop"), delay=0.2),
            reply("", call("read", path="shop/checkout.js")),
            "shop/checkout.js:5 calls chargeV1(cart.customer, cart.total)",
        ],
    },
)
