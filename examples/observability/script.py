"""What the model says when no real one is set."""

from toolnexus.testing import ScriptedModel, call, reply

scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={
        "main": [
            reply(
                "",
                call("task", id="one", agent="weigher", prompt="Weigh the red parcel."),
                call("task", id="two", agent="weigher", prompt="Weigh the blue parcel."),
            ),
            "Red is heavier: 7 kg against 4 kg.",
        ],
        "main/weigher.one": [reply("", call("weigh", parcel="red")), "7 kg."],
        "main/weigher.two": [reply("", call("weigh", parcel="blue")), "4 kg."],
    },
)
