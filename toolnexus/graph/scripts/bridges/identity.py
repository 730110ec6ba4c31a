"""`run` and `node`: which run and which node this is."""

from __future__ import annotations

from toolnexus.graph.scripts.bindings import Binding
from toolnexus.graph.scripts.invocation import Invocation


def run(invocation: Invocation) -> Binding:
    """The global `run`. What a run has no id for is empty."""
    info = invocation.ctx.run
    return Binding(
        "run",
        {
            "get_run_id": lambda: info.run_id,
            "get_task_id": lambda: info.task_id,
            "get_agent_id": lambda: info.agent_id,
            "get_context_id": lambda: info.context_id,
            "get_parent_run_id": lambda: info.parent_run_id,
        },
    )


def node(invocation: Invocation) -> Binding:
    """The global `node`."""
    ctx = invocation.ctx
    return Binding("node", {"id": lambda: ctx.node_id, "type": lambda: ctx.node_type})
