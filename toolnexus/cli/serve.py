"""`toolnexus serve`: a client for others, over HTTP or over this command's own pipes."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from toolnexus.cli import loop
from toolnexus.cli.build import make_client, make_toolbox
from toolnexus.cli.exits import DONE, UsageError
from toolnexus.cli.named import named
from toolnexus.cli.notes import tell_notes
from toolnexus.cli.view.words import plural, printable
from toolnexus.client import Client
from toolnexus.config.source import is_deployment, read_source
from toolnexus.errors import ConfigError
from toolnexus.runtime.context import Runnable
from toolnexus.serving.server import Server, serve
from toolnexus.tools.filters import IfThere

PORT = 8000
_OTHERS = ("a2a", "mcp", "uvicorn", "sse_starlette")
"""Loggers of libraries, which tell of every request that was wrong."""
_NOTHING = (
    "nothing to serve: the document needs a table [a2a] (an agent for others) or [mcpServer] (its tools), "
    "or both; --stdio serves the tools without, and --workflow a workflow"
)


def command(options: Namespace) -> int:
    """Serve until a signal comes, or, with --stdio, until the caller is gone. Gives the exit code."""
    for name in _OTHERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if options.config is not None and is_deployment(read_source(options.config).data):
        from toolnexus.cli import serve_deployment

        return serve_deployment.command(options, given_token(options), PORT)
    if options.agent is not None:
        raise UsageError("--agent chooses among the agents of a deployment document; give one as --config")
    given = _given(options)
    if options.stdio:
        limits = {k: v for k, v in given.items() if k in ("max_concurrent", "max_body", "deadline")}
        tools = {k: v for k, v in given.get("mcp", {}).items() if k != "token"}
        return loop.run(_stdio(options, tools, limits))
    if not ("a2a" in given or "mcp" in given):
        raise UsageError(_NOTHING)
    return loop.run(_http(options, given))


async def _stdio(options: Namespace, tools: dict[str, Any], limits: Mapping[str, Any]) -> int:
    from toolnexus.serving.mcp.stdio import serve_stdio

    client = _client(options, tools, asked=bool(tools.get("agents")))
    async with client:
        await serve_stdio(client, mcp=tools, **limits)
    return DONE


async def _http(options: Namespace, given: dict[str, Any]) -> int:
    tools = given.get("mcp")
    client = _client(options, tools or {}, asked="a2a" in given or bool(tools and tools.get("agents")))
    async with client, serve(client, **given) as server:
        for line in _about(server, given):
            print(printable(line), file=sys.stderr, flush=True)
        await asyncio.Event().wait()
    return DONE


def _client(options: Namespace, tools: dict[str, Any], *, asked: bool) -> Client:
    """The client. When nothing that is served asks a model, there need be none; `task` is left out then."""
    try:
        return make_client(options, None)[0]
    except (UsageError, ConfigError):
        if asked:
            raise
    client = make_toolbox(options)
    if tools.get("tools") is None:
        tools["tools"] = {IfThere("task"): False}
    tell_notes(["there is no model, so `task` is not served"] if client.agents else [])
    return client


def _given(options: Namespace) -> dict[str, Any]:
    """The keyword arguments of `serve`: those of the document, and what options put in their place."""
    given: dict[str, Any] = {}
    if options.config is not None:
        from toolnexus.config.document import Document

        given = Document.read(options.config).serving()
    if options.workflow is not None:
        workflow = named(options.workflow, Runnable, "workflow or agent", "package.module:flow")
        _add_workflow(given, workflow, stdio=options.stdio)
    given.setdefault("port", PORT)
    more = {name: getattr(options, name) for name in ("host", "port") if getattr(options, name) is not None}
    given |= {**more, "allow_anonymous": options.allow_anonymous}
    if (token := given_token(options)) is not None:
        for name in ("a2a", "mcp"):
            if name in given:
                given[name] = {**given[name], "token": token}
    return given


def _add_workflow(given: dict[str, Any], flow: Runnable, *, stdio: bool) -> None:
    """`flow` answers over A2A, and is a tool over MCP. Where the document has neither, one is for it."""
    if stdio:
        given.setdefault("mcp", {})
    elif "mcp" not in given:
        about = flow.description or f"Runs {flow.name}."
        given.setdefault("a2a", {"name": flow.name, "description": about})
    if "a2a" in given:
        given["a2a"] = {**given["a2a"], "agent": flow}
    if "mcp" in given:
        given["mcp"] = {**given["mcp"], "agents": [*given["mcp"].get("agents", ()), flow]}


def given_token(options: Namespace) -> str | None:
    """The token in the variable that `--token-env` names. Raises `UsageError` when there is none."""
    if options.token_env is None:
        return None
    token = os.environ.get(options.token_env, "").strip()
    if not token:
        raise UsageError(f"--token-env: the environment has no {options.token_env!r}")
    return token


def _about(server: Server, given: Mapping[str, Any]) -> list[str]:
    """Where it listens, and what there is."""
    lines = [f"listening on {server.url}"]
    if "a2a" in given:
        name = given["a2a"].get("name", "toolnexus")
        lines.append(f"  A2A agent {name!r}: {server.url}/ {_token(given['a2a'])}")
        lines.append(f"    card: {server.url}/.well-known/agent-card.json")
    if "mcp" in given:
        count = plural(len(server.tools), "tool")
        lines.append(f"  MCP server: {server.url}/mcp {_token(given['mcp'])}")
        lines.append(f"    {count}: {', '.join(server.tools)}")
    return lines


def _token(table: Mapping[str, Any]) -> str:
    return "(a token is needed)" if table.get("token") else "(no token)"
