"""Runs that go on, observed."""

from __future__ import annotations

import pytest

from toolnexus import Answer, Client, RunError, tool
from toolnexus.core.events import RunFinished, ToolFinished, TurnStarted
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


async def test_a_run_that_goes_on_can_be_observed() -> None:
    """[RES-30] What was finished before is no event any more; what is wrong is raised at the end."""

    @tool
    async def pay(to: str) -> str:
        """Pay."""
        return f"paid {to}"

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    turns = [reply("", call("pay", to="ann"), call("look")), "all paid"]
    rules = {"pay": "ask"}
    async with Client(
        model=ScriptedModel(turns), builtins=False, tools=[pay, look], permissions=rules
    ) as client:
        result = await client.ask("go")
        async with client.stream_resume(result, [Answer(id=result.pending[0].id)]) as stream:
            events = [event async for event in stream]
        assert (stream.result.status, stream.result.text) == ("done", "all paid")
        assert [e.name for e in events if isinstance(e, ToolFinished)] == ["pay"]
        assert [e.turn for e in events if isinstance(e, TurnStarted)] == [2]
        assert isinstance(events[-1], RunFinished)
        with pytest.raises(RunError, match="no open request has the id 'x'"):
            async with client.stream_resume(result, [Answer(id="x")]) as stream:
                assert [event async for event in stream] == []
