"""What the model says when no real one is set."""

from toolnexus import ModelRequest
from toolnexus.testing import ScriptedModel


def answer(request: ModelRequest) -> str:
    greeting = request.system.partition("Begin with: ")[2]
    price = request.system.partition("the price, ")[2].partition(".")[0]
    return f"{greeting} Three anchors cost {price}."


scripted = ScriptedModel([answer], name="a script (set TOOLNEXUS_MODEL for a real one)")
