"""One tree of spans through nodes, turns, tools, threads and sub-agents."""

import threading
from typing import Any

import pytest
from opentelemetry import trace

from tests.observability.spans import attributes, tracing
from tests.workflow.test_waiting import asker
from tests.workflow.worlds import EVERY_STYLE, Asked, Said, client, task
from toolnexus import Agent, Answer, ToolContext, tool
from toolnexus.testing import call
from toolnexus.workflow import AgentStep, FanOut, Fn, Parallel, Sequential, as_tool, delegate_to

pytestmark = pytest.mark.anyio


@EVERY_STYLE
async def test_run_node_turn_tool_and_sub_agent_are_one_tree(style: str) -> None:
    """[WF-78] Each below what began it: branches at once, a tool in a thread, a node that is a tool."""
    here = threading.get_ident()

    @tool
    def look(ctx: ToolContext) -> str:
        """Look, in a thread."""
        assert threading.get_ident() != here
        with tracer.start_as_current_span(f"look of {ctx.path[-1].partition('.')[0]}"):
            return "seen"

    def brain(asked: Asked) -> Said:
        if asked.system == "chief":
            return [task("helper", "a"), call("both", prompt="b")] if asked.turn == 1 else "done"
        return call("look") if asked.tools and asked.turn == 1 else "said"

    helper = Agent(name="helper", description="d", tools=[look])
    leaf = Agent(name="leaf", tools=[])
    both = as_tool(Parallel(AgentStep(leaf), Fn(str.upper, name="up"), name="pair"), "both", "Both.")
    team = delegate_to(Agent(name="chief", system_prompt="chief", tools=[both]), helper)
    flow = Sequential(Parallel(team, FanOut(AgentStep(helper)), name="at once"), name="flow")
    with tracing() as traced:
        async with client(style, brain) as (one, _):
            tracer = trace.get_tracer("host")
            result = await one.run(Sequential(Fn(list, name="letters"), flow), "x")
    assert result.output == ["done", ["said"]]
    top = "invoke_agent sequential > Sequential sequential"
    ways = [way for way in traced.tree() if "HTTP" not in way and "POST" not in way]
    chief = f"{top} > Sequential flow > Parallel at once > CoordinatorStep chief > invoke_agent chief"
    fanned = f"{top} > Sequential flow > Parallel at once > FanOut fan_out > AgentStep helper[0]"
    helped = f"{chief} > execute_tool helper > invoke_agent helper > AgentStep helper > invoke_agent helper"
    paired = f"{chief} > execute_tool both > invoke_agent both > Parallel pair"
    for way in (
        f"{top} > Fn letters",
        f"{chief} > chat main",
        f"{helped} > chat main",
        f"{helped} > execute_tool look > look of helper",
        f"{paired} > AgentStep leaf > invoke_agent leaf > chat main",
        f"{paired} > Fn up",
        f"{fanned} > invoke_agent helper > execute_tool look > look of helper",
    ):
        assert way in ways, way
    assert len({span.context.trace_id for span in traced.all if span.context}) == 1
    kinds = {str(attributes(span).get("toolnexus.node.path")) for span in traced.named("AgentStep leaf")}
    assert kinds == {"pair/leaf"}


async def test_a_workflow_that_waits_has_whole_spans_and_no_failure() -> None:
    """[WF-78] Nor has one that goes on: it is a trace of its own."""
    from opentelemetry.trace import StatusCode

    def brain(asked: Asked) -> Said:
        return call("ask", about="q") if asked.turn == 1 else asked.last

    flow = Sequential(Fn(str.upper), AgentStep(Agent(name="a", tools=[asker([])])))
    with tracing() as traced:
        async with client("function", brain) as (one, _):
            result: Any = await one.run(flow, "x")
            answers = [Answer(id=result.pending[0].id, ok=True, data="yes")]
            assert (await one.resume(result, answers, target=flow)).output == "yes"
    assert len(traced.named("AgentStep a")) == 2 and len(traced.named("Fn upper")) == 1
    assert not [span for span in traced.all if span.status.status_code is StatusCode.ERROR]
