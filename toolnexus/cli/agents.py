"""`toolnexus agents`: whom a model may delegate to."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from toolnexus.cli.listing import show, table
from toolnexus.cli.view.words import plural
from toolnexus.client import Client
from toolnexus.engine.agent import Agent
from toolnexus.runtime.context import Runnable


def command(options: Namespace) -> int:
    """List the agents. Gives the exit code."""
    return show(options, as_json=_as_json, as_lines=_as_lines)


def _as_json(client: Client) -> dict[str, Any]:
    return {"agents": [_described(client, agent) for agent in client.agents]}


def _described(client: Client, agent: Runnable) -> dict[str, Any]:
    out: dict[str, Any] = {"name": agent.name, "description": agent.description}
    if isinstance(agent, Agent):
        model = agent.model if agent.model is None or isinstance(agent.model, str) else agent.model.name
        tools = client.tools_of(agent)
        out |= {"model": model, "tools": tools.names(), "max_turns": agent.max_turns}
        out["agents"] = [target.name for target in client.agents_of(agent)]
    return out


def _as_lines(client: Client) -> list[str]:
    lines: list[str] = []
    for agent in client.agents:
        about = _described(client, agent)
        lines += table([(agent.name, agent.description)], indent="")
        if "tools" in about:
            tools = ", ".join(about["tools"]) or "none"
            agents = ", ".join(about["agents"]) or "none"
            model = about["model"] or "its caller's"
            lines += table([("model", model), ("tools", tools), ("agents", agents)])
        lines.append("")
    return [*lines, plural(len(client.agents), "agent")]
