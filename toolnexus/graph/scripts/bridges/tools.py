"""`tools`: the tools that are wired, as far as scripts may call them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any

from toolnexus.core.content import result_to_wire
from toolnexus.core.messages import ToolCallPart, ToolResultPart
from toolnexus.core.tools import Tool
from toolnexus.engine.view import View
from toolnexus.graph.context import NodeContext
from toolnexus.graph.errors import BudgetExceeded
from toolnexus.graph.scripts.bindings import Binding
from toolnexus.graph.scripts.bridges.arguments import invalid, items, shown, table, text
from toolnexus.graph.scripts.invocation import Invocation
from toolnexus.graph.services import Services
from toolnexus.graph.tooling import Keyed, offered, run_recorded

_CALL = ("name", "arguments", "id")


def tools(invocation: Invocation, services: Services, allowed: Collection[str] | None) -> Binding:
    """The global. `allowed` are the names of the tools that may be called, None: all of them.

    Calls go the way of every call: rules, hooks, budgets and events hold.
    """
    it = _Tools(invocation.ctx, services, allowed)
    return Binding(
        "tools",
        {"call": it.call, "callAll": it.call_all, "list": it.names, "definitions": it.definitions},
    )


class _Tools:
    def __init__(self, ctx: NodeContext, services: Services, allowed: Collection[str] | None) -> None:
        self._ctx = ctx
        self._services = services
        self._allowed = allowed
        self._calls = 0
        self._used: set[str] = set()

    async def call(self, name: Any, arguments: Any = None) -> dict[str, Any]:
        return (await self.call_all([{"name": name, "arguments": arguments}]))[0]

    async def call_all(self, calls: Any) -> list[dict[str, Any]]:
        wanted = [self._call(call, f"calls[{n}]") for n, call in enumerate(items(calls, "the calls"))]
        ids = [call.id for _, call in wanted]
        if twice := next((id for id in ids if ids.count(id) > 1), None):
            raise invalid(f"several calls of a batch have the id {twice!r}")
        view = self._view()
        admitted = [(key, call) for key, call in wanted if self._admits(call.name)]
        results = await self._run(view, admitted) if admitted else {}
        return [_shown(call, results.get(call.id) or self._denied(call, view)) for _, call in wanted]

    def names(self) -> list[str]:
        return [tool.name for tool in self._callable()]

    def definitions(self) -> list[dict[str, Any]]:
        return [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.input_schema)}
            for tool in self._callable()
        ]

    def _view(self) -> View:
        return offered(self._services, self._ctx.rail.frame)

    def _admits(self, name: str) -> bool:
        return self._allowed is None or name in self._allowed

    def _callable(self) -> list[Tool]:
        return [tool for tool in self._view().tools if self._admits(tool.name)]

    def _call(self, data: Any, where: str) -> tuple[str, ToolCallPart]:
        """The call, and the key that it has again when the script is run again."""
        fields = table(data, where, _CALL)
        name, arguments, id = (
            text(fields.get("name"), f"{where}.name"),
            fields.get("arguments"),
            fields.get("id"),
        )
        if isinstance(arguments, Mapping):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if arguments is None or arguments == []:
            arguments = "{}"
        if not isinstance(arguments, str):
            raise invalid(f"{where}.arguments must be JSON as text, not {shown(arguments)}")
        self._calls += 1
        digest = sha256(f"{name}\n{arguments}".encode(errors="replace")).hexdigest()[:8]
        key = f"{self._ctx.attempt}.{self._calls}.{digest}"
        if id is None:
            id = f"call_{sha256(f'{self._ctx.wave}/{key}'.encode()).hexdigest()[:16]}"
        return key, ToolCallPart(text(id, f"{where}.id"), name, arguments)

    async def _run(self, view: View, calls: Keyed) -> dict[str, ToolResultPart]:
        frame = self._ctx.rail.frame
        for _, call in calls:
            # ids are the script's: the result of another call with this one is none of this call
            if frame.stood is None or call.id in self._used:
                frame.results.pop(call.id, None)
            self._used.add(call.id)
        batch = await run_recorded(self._ctx, view, calls)
        if batch.stop is not None:
            raise BudgetExceeded(f"node {self._ctx.node_id!r}: limit {batch.stop}", limit=batch.stop)
        return {result.call_id: result for result in batch.results}

    def _denied(self, call: ToolCallPart, view: View) -> ToolResultPart:
        allowed = ", ".join(tool.name for tool in view.tools if self._admits(tool.name)) or "none"
        told = f"the tool {call.name!r} is not allowed for this script; allowed: {allowed}"
        return ToolResultPart(call.id, told, is_error=True)


def _shown(call: ToolCallPart, result: ToolResultPart) -> dict[str, Any]:
    return {
        "parts": result_to_wire(result)["content"]["parts"],
        "is_error": result.is_error,
        "tool_call_id": call.id,
        "name": call.name,
    }
