"""What the model says when no real one is set: the auditor tries what it may not."""

from toolnexus.testing import ScriptedModel, call, reply

COMMAND = "date +%A > day.txt && echo written"

scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={
        "main": [
            reply(
                "",
                call("task", id="op", agent="operator", prompt=f"Run: {COMMAND}"),
                call("task", id="au", agent="auditor", prompt=f"Run: {COMMAND}"),
            ),
            "The operator wrote the file. The auditor could not: it has no bash.",
        ],
        "main/operator.op": [reply("", call("bash", command=COMMAND)), "day.txt is written."],
        "main/auditor.au": [reply("", call("bash", command=COMMAND)), "I have no bash; I can only read."],
    },
)
