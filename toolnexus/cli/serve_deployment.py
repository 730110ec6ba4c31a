"""`toolnexus serve --config` of a deployment document: its agents, over A2A and as tools over MCP."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from toolnexus.cli import loop
from toolnexus.cli.build import given_options
from toolnexus.cli.exits import DONE, UsageError
from toolnexus.cli.view.words import printable
from toolnexus.client import Client
from toolnexus.core.names import did_you_mean
from toolnexus.graph.deployment import DeployedAgent, Deployment, deploy
from toolnexus.serving.server import Server, serve

_TAKEN = ("permissions", "store")
"""Options of a client that go with a deployment; the rest is what the document says."""


def command(options: Namespace, token: str | None, port: int) -> int:
    """Serve until a signal comes, or, with --stdio, until the caller is gone. Gives the exit code.

    Raises `ConfigError` for what is wrong in the document, `UsageError` for options that do not go with it.
    """
    given = given_options(options)
    workflow = {"workflow"} if options.workflow is not None else set[str]()
    if others := sorted(given.keys() - set(_TAKEN) | workflow):
        raise UsageError(
            f"a deployment document says all of its agents; not to be given with it: {', '.join(others)}"
        )
    deployment = deploy(options.config)
    if options.stdio:
        return loop.run(_stdio(deployment, given))
    where = {
        "host": options.host or "127.0.0.1",
        "port": port if options.port is None else options.port,
        "allow_anonymous": options.allow_anonymous,
    }
    return loop.run(_http(deployment, chosen(deployment, options.agent), token, given, where))


def chosen(deployment: Deployment, name: str | None) -> DeployedAgent | None:
    """The agent that answers over A2A: the named one, or the only one. Raises `UsageError`."""
    agents = deployment.agents
    if name is None:
        return next(iter(agents.values())) if len(agents) == 1 else None
    if name not in agents:
        near = did_you_mean(name, agents)
        raise UsageError(f"--agent: there is no agent {name!r}{near}; agents: {', '.join(agents)}")
    return agents[name]


@asynccontextmanager
async def serving(
    deployment: Deployment,
    agent: DeployedAgent | None,
    token: str | None,
    given: Mapping[str, Any],
    where: Mapping[str, Any],
) -> AsyncGenerator[Server]:
    """The agents over HTTP, as long as the block lasts.

    `given` are options of the client, `where` of `serve`. Raises what these raise.
    """
    a2a: dict[str, Any] | None = None
    if agent is not None:
        card = {"name": agent.title, "description": agent.description}
        a2a = {"agent": agent.name, "token": token, **card}
    mcp = {**_tools(deployment), "token": token}
    client = _client(deployment, given)
    async with deployment, client, serve(client, a2a=a2a, mcp=mcp, **where) as server:
        yield server


async def _http(
    deployment: Deployment,
    agent: DeployedAgent | None,
    token: str | None,
    given: Mapping[str, Any],
    where: Mapping[str, Any],
) -> int:
    async with serving(deployment, agent, token, given, where) as server:
        for line in about(server, agent, token):
            print(printable(line), file=sys.stderr, flush=True)
        await asyncio.Event().wait()
    return DONE


async def _stdio(deployment: Deployment, given: Mapping[str, Any]) -> int:
    from toolnexus.serving.mcp.stdio import serve_stdio

    async with deployment, _client(deployment, given) as client:
        await serve_stdio(client, mcp=_tools(deployment))
    return DONE


def about(server: Server, agent: DeployedAgent | None, token: str | None) -> list[str]:
    """Where it listens, and what there is."""
    needs = "(a token is needed)" if token else "(no token)"
    if agent is None:
        who = "  no A2A agent: there are several; choose one with --agent"
    else:
        who = f"  A2A agent {agent.title!r}: {server.url}/ {needs}"
    return [
        f"listening on {server.url}",
        who,
        f"  MCP server: {server.url}/mcp {needs}",
        f"    agents: {', '.join(server.tools)}",
    ]


def _client(deployment: Deployment, given: Mapping[str, Any]) -> Client:
    return Client(builtins=False, agents=tuple(deployment.agents.values()), **given)


def _tools(deployment: Deployment) -> dict[str, Any]:
    return {"tools": [], "agents": list(deployment.agents)}
