"""What the model of this example says, so that it runs without a key."""

import json

from toolnexus import FunctionModel, Message, ModelRequest, ToolCallPart, assistant


def use(name: str, **arguments: str) -> ToolCallPart:
    return ToolCallPart(f"call_{name}", name, json.dumps(arguments))


def say(request: ModelRequest) -> Message | str:
    if request.agent == "counter":
        return assistant("", use("glob", pattern="*")) if request.turn == 1 else "There is one file."
    if request.turn == 1:
        note = use("bash", command="touch notes.md")
        return assistant("", use("task", agent="counter", prompt="How many files?"), note)
    return "One file was there; notes.md is made."


scripted = FunctionModel(say, name="a script (set TOOLNEXUS_MODEL for a real one)")
