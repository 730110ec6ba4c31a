"""Secrets that are echoed are in nothing that an operator reads; spans of the MCP SDK are in the tree."""

import json
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.helpers import ROUGH, entries, http_server
from tests.observability.spans import Traced, attributes, tracing
from toolnexus import (
    Client,
    ModelHTTPError,
    OpenAIModel,
    Tool,
    ToolContext,
    ToolResult,
)
from toolnexus.telemetry.spans import CAPTURE
from toolnexus.testing import ScriptedEndpoint, ScriptedModel, Turn, call, reply

pytestmark = pytest.mark.anyio

SECRET = 'tok-123-\u00e9"x\\y'  # what is spelt with escapes in JSON is a secret as well
TOKEN = "tok-456-plain"


def everything(traced: Traced, caplog: pytest.LogCaptureFixture, client: Client) -> str:
    lines = [f"{r.getMessage()} {vars(r)}" for r in caplog.records]
    values = [str(v) for s in traced.all for v in attributes(s).values()]
    said = [str(dict(e.attributes or {})) for s in traced.all for e in s.events]
    return "\n".join([str(traced), *values, *said, *lines, client.metrics()])


def holds(text: str, secret: str) -> bool:
    return (
        secret in text
        or json.dumps(secret)[1:-1] in text
        or json.dumps(secret, ensure_ascii=False)[1:-1] in text
    )


@pytest.mark.parametrize("captured", ["false", "true"])
async def test_an_endpoints_echo_is_masked(
    captured: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[OBS-10] A key in an error of the endpoint, in a reply and in arguments: in no span, log or metric."""
    monkeypatch.setenv(CAPTURE, captured)
    caplog.set_level(logging.DEBUG, "toolnexus")

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        raise RuntimeError(f"refused with {arguments['x']}")

    look = Tool("look", "Look.", {"type": "object"}, execute)
    turns = [
        Turn(text=f"my key is {SECRET}", calls=[{"name": "look", "args": {"x": SECRET, SECRET: [SECRET]}}]),
        Turn(status=400, body=json.dumps({"error": {"message": f"you sent {SECRET}"}})),
    ]
    with tracing() as traced, ScriptedEndpoint(turns) as endpoint:
        model = OpenAIModel("m", base_url=endpoint.url, api_key="k" * 20, headers={"x-token": SECRET})
        async with Client(model=model, builtins=False, tools=[look]) as client:
            with pytest.raises(ModelHTTPError):
                await client.ask("go")
            text = everything(traced, caplog, client)
    assert len(traced.all) == 4 and ("[redacted]" in text) and not holds(text, SECRET)


@pytest.mark.parametrize("captured", ["false", "true"])
async def test_a_servers_echo_is_masked(
    captured: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[OBS-10] Also in the spans that the MCP SDK makes itself, over HTTP and stdio."""
    monkeypatch.setenv(CAPTURE, captured)
    caplog.set_level(logging.DEBUG, "toolnexus")
    echoed: dict[str, Any] = {"error": {"code": -32050, "message": f"bad header {TOKEN}"}}
    with http_server() as url:
        servers = {
            "far": {"url": url, "headers": {"Authorization": f"Bearer {TOKEN}"}},
            "near": {"command": sys.executable, "args": ["-S", str(ROUGH)], "env": {"API_TOKEN": TOKEN}},
        }
        names = ["far_result", "near_result", "far_echo"]
        calls = [*[call(n, None, **echoed) for n in names[:2]], call(names[2], s=TOKEN)]
        with tracing() as traced:
            model = ScriptedModel([reply("", *calls), reply("end")])
            async with Client(model=model, builtins=False, mcp={"mcpServers": servers}) as client:
                result = await client.ask("go")
                text = everything(traced, caplog, client)
    outputs = [r.output for r in result.messages[2].tool_results]
    assert all("[redacted]" in output for output in outputs), outputs
    sdk = [s for s in traced.all if s.name.startswith("MCP send tools/call") and s.status.description]
    assert len(sdk) == 2 and TOKEN not in text


@asynccontextmanager
async def remote(url: str) -> AsyncGenerator[Client]:
    model = ScriptedModel([reply("", call("far_echo", s="x")), reply("end")] * 2)
    async with Client(model=model, builtins=False, mcp={"mcpServers": {"far": {"url": url}}}) as client:
        yield client


async def test_a_servers_request_is_below_its_call(tmp_path: Path) -> None:
    """[OBS-11] The server gets W3C trace context that points into the tree, in every ask its own."""
    log = tmp_path / "log"
    with http_server("--log", str(log)) as url, tracing() as traced:
        async with remote(url) as client:
            await client.ask("go")
            await client.ask("go")
    sent = [s for s in traced.all if s.name.startswith("MCP send tools/call")]
    ways = {" > ".join(traced.way(span)[:-1]) for span in sent}
    assert len(sent) == 2 and ways == {"invoke_agent main > execute_tool far_echo"}
    assert len({s.context.trace_id for s in sent if s.context}) == 2
    parents = [
        e["params"]["_meta"]["traceparent"][:-3] for e in entries(log) if e.get("method") == "tools/call"
    ]
    ids = [f"00-{s.context.trace_id:032x}-{s.context.span_id:016x}" for s in sent if s.context]
    assert sorted(parents) == sorted(ids)


async def test_opening_belongs_to_whoever_opens(tmp_path: Path) -> None:
    """[OBS-11] A server that connects during one ask keeps nothing of its trace."""
    with http_server() as url, tracing() as traced:
        async with remote(url) as client:
            await client.ask("go")
    assert [s for s in traced.all if s.name == "invoke_agent main" and s.parent is None]
    for span in traced.all:
        traced.way(span)  # no parent is missing
