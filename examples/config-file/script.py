"""What the model says when no real one is set: two agents at once, then the decision."""

from toolnexus.testing import ScriptedModel, call, reply

scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={
        "main": [
            reply(
                "",
                call("task", id="r", agent="reader", prompt="What does release.txt say?"),
                call("task", id="c", agent="checker", prompt="What is open?"),
            ),
            "Thursday holds once the price list has the new plan.",
        ],
        "main/reader.r": [reply("", call("read", path="release.txt")), "Release 4.2, on Thursday."],
        "main/checker.c": [
            reply("", call("grep", pattern="^OPEN")),
            "One: the price list lacks the new plan.",
        ],
    },
)
