"""What the model says when no real one is set."""

from toolnexus import ModelRequest
from toolnexus.testing import ScriptedModel, call, reply


def question(request: ModelRequest) -> str:
    return request.messages[0].text


def page(request: ModelRequest) -> object:
    return reply(call("look_up", page="tides" if "moon" in question(request) else "harbour"))


def found(request: ModelRequest) -> str:
    return request.messages[-1].tool_results[0].output


scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={
        "research/planner.*": ["What does the moon do to the water?\nHow deep is the harbour?"],
        "research/researcher.*": [page, found],
        "research/editor.*/critic.*": [reply(call("used_sources")), lambda r: f"{found(r)}: that will do."],
        "research/editor.*": [
            reply(call("critic", id="ask", prompt="Are the sources good enough?")),
            "At high water, which follows the moon: at low water the harbour is only two metres deep.",
        ],
    },
)
