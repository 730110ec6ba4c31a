"""`toolnexus serve --config` of a deployment document: its agents, over A2A and as tools over MCP."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from toolnexus.cli import loop
from toolnexus.cli.build import given_options
from toolnexus.cli.exits import DONE, UsageError
from toolnexus.cli.view.words import printable
from toolnexus.client import Client
from toolnexus.core.names import did_you_mean
from toolnexus.graph.deployment import DeployedAgent, Deployment, deploy
from toolnexus.serving.server import serve

_TAKEN = ("permissions", "store")
"""Options of a client that go with a deployment; the rest is what the document says."""


def command(options: Namespace, port: int) -> int:
    """Serve until a signal comes, or, with --stdio, until the caller is gone. Gives the exit code.

    Raises `ConfigError` for what is wrong in the document, `UsageError` for options that do not go with it.
    """
    given = given_options(options)
    if others := sorted(given.keys() - set(_TAKEN)):
        raise UsageError(
            f"a deployment document says all of its agents; not to be given with it: {', '.join(others)}"
        )
    deployment = deploy(options.config)
    agent = chosen(deployment, options.agent)
    return loop.run(_serve(options, deployment, agent, given, port))


def chosen(deployment: Deployment, name: str | None) -> DeployedAgent | None:
    """The agent that answers over A2A: the named one, or the only one."""
    agents = deployment.agents
    if name is None:
        return next(iter(agents.values())) if len(agents) == 1 else None
    if name not in agents:
        near = did_you_mean(name, agents)
        raise UsageError(f"--agent: there is no agent {name!r}{near}; agents: {', '.join(agents)}")
    return agents[name]


async def _serve(
    options: Namespace,
    deployment: Deployment,
    agent: DeployedAgent | None,
    given: Mapping[str, Any],
    port: int,
) -> int:
    tools = {"tools": [], "agents": list(deployment.agents)}
    client = Client(builtins=False, agents=tuple(deployment.agents.values()), **given)
    async with deployment, client:
        if options.stdio:
            from toolnexus.serving.mcp.stdio import serve_stdio

            await serve_stdio(client, mcp=tools)
            return DONE
        token = _token(options.token_env)
        a2a: dict[str, Any] | None = None
        if agent is not None:
            card = {"name": agent.title, "description": agent.description}
            a2a = {"agent": agent.name, "token": token, **card}
        async with serve(
            client,
            host=options.host or "127.0.0.1",
            port=port if options.port is None else options.port,
            a2a=a2a,
            mcp={**tools, "token": token},
            allow_anonymous=options.allow_anonymous,
        ) as server:
            needs = "(a token is needed)" if token else "(no token)"
            lines = [f"listening on {server.url}"]
            if agent is not None:
                lines.append(f"  A2A agent {agent.title!r}: {server.url}/ {needs}")
            else:
                lines.append("  no A2A agent: there are several; choose one with --agent")
            lines.append(f"  MCP server: {server.url}/mcp {needs}")
            lines.append(f"    agents: {', '.join(server.tools)}")
            for line in lines:
                print(printable(line), file=sys.stderr, flush=True)
            await asyncio.Event().wait()
    return DONE


def _token(variable: str | None) -> str | None:
    if variable is None:
        return None
    token = os.environ.get(variable, "").strip()
    if not token:
        raise UsageError(f"--token-env: the environment has no {variable!r}")
    return token
