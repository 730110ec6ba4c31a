"""What the model says when no real one is set: look, order too much, order what is there."""

from toolnexus.testing import ScriptedModel, call, reply

scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={
        "main": [
            reply("", call("listArticles", search=["tea", "cocoa"])),
            reply(
                "",
                call("order", body={"article": "tea", "amount": 5}),
                call("order", body={"article": "green tea", "amount": "five"}),
            ),
            reply("", call("order", body={"article": "green tea", "amount": 5})),
            "Five green teas are ordered, seven are left. Of the plain tea there were only three.",
        ],
    },
)
