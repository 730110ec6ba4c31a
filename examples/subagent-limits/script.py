"""What the model says when no real one is set: it never comes to an end by itself."""

from toolnexus import FunctionModel, Message, ModelRequest, assistant
from toolnexus.testing import call


def speak(request: ModelRequest) -> Message | str:
    if request.agent == "digger":
        return assistant(f"Looked at {request.turn} shelves.", call("search", id="s", query="lost letter"))
    if request.agent == "ping":
        return delegating("pong") if request.turn == 1 else "Pong should know."
    if request.agent == "pong":
        return delegating("ping") if request.turn == 1 else "Ping should know."
    if request.turn == 1:
        return delegating("digger" if "digger" in request.messages[-1].text else "ping")
    return "That is as far as it got: " + request.messages[-1].tool_results[0].output.splitlines()[0]


def delegating(agent: str) -> Message:
    return assistant(f"Let {agent} do it.", call("task", id="t", agent=agent, prompt="Find out."))


scripted = FunctionModel(speak, name="a script (set TOOLNEXUS_MODEL for a real one)")
