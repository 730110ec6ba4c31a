"""`parallel`: the siblings of a wave in flight."""

from __future__ import annotations

from typing import Any

from toolnexus.graph.scripts.bindings import Binding
from toolnexus.graph.scripts.bridges.arguments import invalid, shown, text
from toolnexus.graph.scripts.invocation import Invocation


def parallel(invocation: Invocation) -> Binding:
    """The global. Outside a parallel wave there is nothing to cancel."""

    def cancel_node(node_id: Any, reason: Any = None) -> bool:
        if not isinstance(reason, str | None):
            raise invalid(f"the reason must be text, not {shown(reason)}")
        return invocation.ctx.cancel_node(text(node_id, "the id of a node"), reason or "")

    return Binding("parallel", {"cancelNode": cancel_node})
