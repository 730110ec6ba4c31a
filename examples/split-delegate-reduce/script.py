"""What the model says when no real one is set. It puts together what its writers really answered."""

from toolnexus import ModelRequest
from toolnexus.testing import ScriptedModel, call, reply

STYLE = "Style guide: no numbers of commits or issues."


def reduce(request: ModelRequest) -> str:
    features, fixes = request.messages[-1].tool_results
    return (
        f"Version 2.4 gets your data out and shows it in the dark.\n\n"
        f"New\n{features.output}\n\nFixed\n{fixes.output}"
    )


scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={
        "main": [
            reply(
                "",
                call("task", id="features", agent="writer", prompt="Write the features.", context=STYLE),
                call("task", id="fixes", agent="writer", prompt="Write the fixes.", context=STYLE),
            ),
            reduce,
        ],
        "main/writer.features": [
            reply("", call("commits", kind="features")),
            "- Export as CSV\n- Search by tag\n- A dark theme",
        ],
        "main/writer.fixes": [
            reply("", call("commits", kind="fixes")),
            "- An empty cart no longer crashes\n- Totals are rounded correctly",
        ],
    },
)
