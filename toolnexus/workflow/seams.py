"""Where nodes meet the rest: a node as a tool of an agent, and as something with a name that can be run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from toolnexus.core.options import expect, wrong
from toolnexus.core.tools import Execute, Tool, ToolResult
from toolnexus.engine.agent import Agent
from toolnexus.engine.boundary import told
from toolnexus.engine.delegate import delegated
from toolnexus.engine.scope import as_tool as check_tool
from toolnexus.errors import ConfigError
from toolnexus.runtime.context import Outcome, RunContext, Runnable, ToolContext
from toolnexus.workflow.node import Node, checked

In = TypeVar("In")
Out = TypeVar("Out")

_PROMPT: Mapping[str, Any] = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "What to do, with all that must be known."}},
    "required": ["prompt"],
    "additionalProperties": False,
}


class NamedNode:
    """A node under a name and a description of its own, as something that can be run."""

    def __init__(self, node: Node[Any, Any], name: str, description: str) -> None:
        self.name = name
        self.description = description
        self.node = node

    @property
    def step_agents(self) -> Sequence[Agent]:
        """See `Node.step_agents`."""
        return self.node.step_agents

    async def execute(self, input: Any, ctx: RunContext) -> Outcome:
        return await self.node.execute(input, ctx)

    def __repr__(self) -> str:
        return f"NamedNode({self.name!r}, {self.node!r})"


def as_runnable(node: Node[Any, Any], name: str, description: str) -> Runnable:
    """`node` as a target of `task`, of `client.run` and of serving, under this name.

    Raises `ConfigError` when the name or the description is missing: models choose by them.
    """
    checked(node, "as_runnable")
    for what, text in (("name", name), ("description", description)):
        expect(f"as_runnable: {what}", text, str, "give text")
        if not text.strip():
            raise ConfigError(f"as_runnable: the {what} is empty")
    return NamedNode(node, name, description)


def as_tool(node: Node[Any, Any], name: str, description: str, input_type: Any = None) -> Tool:
    """`node` as a tool of any agent.

    `input_type`: what the node takes, as a type that pydantic knows or a JSON Schema of an object; None: a
    `prompt`, which the node gets as text. The node runs below the call with the caller's deps and a fork of
    its scratchpad; one with agents in it counts in depth and number like a sub-agent. Raises `ConfigError`.
    """
    target = as_runnable(node, name, description)
    schema, read = _input(input_type)

    delegates = bool(node.step_agents)

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        input = read(arguments)
        if delegates:
            return await delegated(target, input, ctx)
        context = ctx.context.fork()
        runner = context.run.runner
        result = await runner.run(target, input, parent=context, key=ctx.call_id, resumed=ctx.resumed)
        return told(name, result, context.run.redact)

    tool = NodeTool(node, name, description, schema, execute)
    check_tool(tool, "as_tool")
    return tool


class NodeTool(Tool):
    """See `as_tool`."""

    def __init__(
        self, node: Node[Any, Any], name: str, description: str, schema: Mapping[str, Any], execute: Execute
    ) -> None:
        super().__init__(name, description, schema, execute, source="agent")
        self._node = node

    @property
    def step_agents(self) -> Sequence[Agent]:
        """See `Node.step_agents`."""
        return self._node.step_agents


def _input(input_type: Any) -> tuple[Mapping[str, Any], Any]:
    """The schema of the arguments, and what makes the input of them."""
    if input_type is None:
        return _PROMPT, lambda arguments: arguments["prompt"]  # type: ignore[return-value]
    if isinstance(input_type, Mapping):
        schema = cast("Mapping[str, Any]", input_type)
        if schema.get("type") != "object":
            raise wrong("as_tool: input_type", schema, "give the JSON Schema of an object")
        return schema, lambda arguments: arguments  # type: ignore[return-value]
    from toolnexus.engine.output import output_type_of

    form = output_type_of(input_type, "as_tool: input_type: ")
    assert form is not None
    return form.spec.schema, form.value
