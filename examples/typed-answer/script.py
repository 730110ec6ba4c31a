"""What the model says when no real one is set. Its first answer has a severity that there is not."""

import json

from toolnexus import ModelRequest
from toolnexus.testing import ScriptedModel, call, reply


def first(request: ModelRequest) -> str:
    estimate = json.loads(request.messages[-1].tool_results[0].output)
    return json.dumps({"severity": "urgent", "team": "payments", "hours": estimate["hours"]})


scripted = ScriptedModel(
    name="a script (set TOOLNEXUS_MODEL for a real one)",
    by_path={
        "main": [
            reply(call("ticket", number=7)),
            reply(call("task", id="e", agent="estimator", prompt="Payment by card is down. How long?")),
            first,
            '{"severity": "high", "team": "payments", "hours": 6, "due": "2026-03-01"}',
        ],
        "main/estimator.e": ['```json\n{"hours": 6, "sure": false}\n```'],
    },
)
