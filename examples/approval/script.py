"""What the model of this example says, so that it runs without a key."""

import json

from toolnexus import FunctionModel, Message, ModelRequest, ToolCallPart, assistant


def use(id: str, name: str, **arguments: str) -> ToolCallPart:
    return ToolCallPart(id, name, json.dumps(arguments))


def say(request: ModelRequest) -> Message | str:
    if request.turn > 1:
        return (
            "I left everything else."
            if request.agent == "cleaner"
            else "approved.txt is there, as you wished."
        )
    if request.agent == "cleaner":
        return assistant(
            "", use("c1", "bash", command="rm notes.txt"), use("c2", "bash", command="mkdir archive")
        )
    return assistant(
        "",
        use("m1", "bash", command="touch approved.txt"),
        use("m2", "bash", command="ls"),
        use("m3", "bash", command="ls && rm notes.txt"),
        use("m4", "task", agent="cleaner", prompt="Tidy the folder up."),
    )


scripted = FunctionModel(say, name="a script (set TOOLNEXUS_MODEL for a real one)")
