"""What the model says when no real one is set."""

from toolnexus import ModelRequest
from toolnexus.testing import ScriptedModel, reply


def verdict(request: ModelRequest) -> str:
    """One sentence of what stands in the system prompt."""
    found = [line.partition(": ")[2] for line in request.system.splitlines()[1:]]
    return f"Not yet: {found[0]}; {found[1]}. Secrets: {found[2]}."


scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={
        "review/bugs*": [reply("it may charge twice", delay=0.2)],
        "review/style*": [reply("what is returned has no name")],
        "review": [verdict],
    },
)
