"""CoordinatorStep: an agent whose model routes to a team."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from toolnexus.core.names import sanitize
from toolnexus.core.options import expect
from toolnexus.core.tools import Tool
from toolnexus.engine.agent import Agent
from toolnexus.engine.scope import Scope
from toolnexus.errors import ConfigError
from toolnexus.workflow.agent_step import AgentStep
from toolnexus.workflow.node import Node, checked
from toolnexus.workflow.runners import AgentRunner, ModelRunner
from toolnexus.workflow.seams import as_tool

Member = Agent | Node[Any, Any]


class CoordinatorStep(AgentStep[str]):
    """An agent and its team: each member is a tool of the agent, called like it, that takes a `prompt`.

    The agent keeps its own tools; members keep theirs, and are not offered the agent's. A member is an
    agent or any node. `runner` is for the agent itself, see `AgentStep`.
    """

    def __init__(
        self,
        agent: Agent,
        team: Sequence[Member],
        *,
        runner: AgentRunner | ModelRunner | None = None,
        name: str | None = None,
    ) -> None:
        """Raises `ConfigError` for no agent, an empty team, two members of one name, and no member."""
        expect("CoordinatorStep: agent", agent, Agent, "give an Agent")
        if isinstance(team, str) or not isinstance(team, Sequence) or not team:
            raise ConfigError(
                f"CoordinatorStep({agent.name!r}): team={team!r} must be a list of agents or nodes"
            )
        self._team = [member if isinstance(member, Node) else AgentStep(member) for member in team]
        tools = [_member_tool(member, agent.name) for member in self._team]
        names = [tool.name for tool in tools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"CoordinatorStep({agent.name!r}): several members are called {twice}")
        super().__init__(agent, runner=runner, name=name)
        self._as_of_now = WithTools(agent, tools)

    @property
    def children(self) -> Sequence[tuple[str, Node[Any, Any]]]:
        return [("may ask", member) for member in self._team]


def delegate_to(
    coordinator: Agent, *team: Member, runner: AgentRunner | ModelRunner | None = None
) -> CoordinatorStep:
    """`CoordinatorStep(coordinator, team)` in short."""
    return CoordinatorStep(coordinator, team, runner=runner)


class WithTools:
    """An agent with more tools of its own, beside all that it has: called, it is as the agent is by now."""

    def __init__(self, agent: Agent, tools: Sequence[Tool]) -> None:
        self._agent = agent
        self._tools = tuple(tools)
        self._seen: tuple[Scope, Agent] | None = None

    def __call__(self) -> Agent:
        scope = self._agent.scope
        if self._seen is None or self._seen[0] is not scope:  # it was edited
            twin = copy.copy(self._agent)
            object.__setattr__(twin, "scope", replace(scope, own=(*scope.own, *self._tools)))
            self._seen = scope, twin
        return self._seen[1]


def _member_tool(member: Node[Any, Any], coordinator: str) -> Tool:
    node = checked(member, f"CoordinatorStep({coordinator!r})")
    about = node.description or f"Ask {node.name!r}."
    return as_tool(node, sanitize(node.name), about)
