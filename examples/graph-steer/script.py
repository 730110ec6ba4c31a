"""What the model says when no real one is set."""

from toolnexus import ModelRequest
from toolnexus.testing import ScriptedModel, call, reply


def answer(request: ModelRequest) -> str:
    wanted = "66 degrees Fahrenheit" if "Fahrenheit" in request.messages[-1].text else "19 degrees Celsius"
    return f"It is {wanted} in Rome."


scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    replies=[reply(call("measure", place="Rome")), answer],
)
