"""Our client with the official MCP servers for Node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.peers.programs import free_port, listening
from toolnexus import Answer, Client, Request, ToolProgress
from toolnexus.core.events import Event
from toolnexus.core.messages import ToolResultPart
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = [pytest.mark.anyio, pytest.mark.peers]

Node = dict[str, str]
transports = pytest.mark.parametrize("transport", ["stdio", "http"])


@asynccontextmanager
async def everything(node: Node, transport: str) -> AsyncGenerator[dict[str, Any]]:
    """The configuration of a server-everything that can be reached."""
    if transport == "stdio":
        yield {"command": "mcp-server-everything", "env": {"PATH": node["PATH"]}}
        return
    port = free_port()
    command, env = ("mcp-server-everything", "streamableHttp"), {**node, "PORT": str(port)}
    async with listening(*command, ready="listening on port", env=env):
        yield {"url": f"http://127.0.0.1:{port}/mcp"}


async def results(server: dict[str, Any], *calls: Any, **options: Any) -> list[ToolResultPart]:
    """What a model gets that makes these calls at once."""
    model = ScriptedModel([reply(*calls), "done"])
    async with (
        asyncio.timeout(60),
        Client(model=model, builtins=False, mcp={"s": server}, **options) as client,
    ):
        assert client.mcp_status()["s"]["status"] == "connected"
        result = await client.ask("go")
    return list(result.messages[2].tool_results)


@transports
async def test_tools_of_server_everything_work(node: Node, transport: str) -> None:
    """[PEER-01] Text, structure, images, links, embedded resources and errors, all at once."""
    async with everything(node, transport) as server:
        echo, total, data, image, links, resource, wrong = await results(
            server,
            call("s_echo", message="hi"),
            call("s_get-sum", a=1, b=2),
            call("s_get-structured-content", location="Chicago"),
            call("s_get-tiny-image"),
            call("s_get-resource-links", count=2),
            call("s_get-resource-reference", resourceType="Text", resourceId=1),
            call("s_get-resource-reference", resourceType="Text", resourceId=-1),
        )
    assert (echo.output, echo.is_error) == ("Echo: hi", False)
    assert total.output == "The sum of 1 and 2 is 3."
    assert '"temperature"' in data.output
    assert [part.mime_type for part in image.media] == ["image/png"]
    assert "demo://resource/dynamic/" in links.output
    assert "Resource 1" in resource.output
    assert wrong.is_error and "resourceId" in wrong.output


@transports
async def test_a_question_of_server_everything_is_answered(node: Node, transport: str) -> None:
    """[PEER-02] Its elicitation is a request for whoever answers."""
    asked: list[Request] = []

    async def on_request(request: Request) -> Answer:
        asked.append(request)
        return Answer(id=request.id, data={"name": "Ann", "check": True})

    async with everything(node, transport) as server:
        (result,) = await results(server, call("s_trigger-elicitation-request"), on_request=on_request)
    assert len(asked) == 1 and "provide inputs" in asked[0].prompt
    assert not result.is_error and "Ann" in result.output


@transports
async def test_progress_of_server_everything_is_seen(node: Node, transport: str) -> None:
    """[PEER-03] Each step is an event, before the result."""
    seen: list[Event] = []
    model = ScriptedModel([reply(call("s_trigger-long-running-operation", duration=0.2, steps=4)), "done"])
    async with everything(node, transport) as server:
        async with asyncio.timeout(60), Client(model=model, builtins=False, mcp={"s": server}) as client:
            async with client.stream("go") as stream:
                async for event in stream:
                    seen.append(event)
    steps = [event for event in seen if isinstance(event, ToolProgress)]
    assert [(step.data["progress"], step.data["total"]) for step in steps] == [(1, 4), (2, 4), (3, 4), (4, 4)]


@transports
async def test_a_cancelled_call_leaves_server_everything_usable(node: Node, transport: str) -> None:
    """[PEER-04] A run that is cancelled in the middle of a call, and many more calls behind it."""
    hang = call("s_trigger-long-running-operation", duration=60, steps=1200)
    many = [call("s_echo", message=str(i)) for i in range(50)]
    model = ScriptedModel([reply(hang), reply(*many), "done"])
    async with everything(node, transport) as server:
        async with asyncio.timeout(60), Client(model=model, builtins=False, mcp={"s": server}) as client:
            async with client.stream("go") as stream:
                async for event in stream:
                    if isinstance(event, ToolProgress):
                        break
            result = await client.ask("again")
    assert [part.output for part in result.messages[2].tool_results] == [f"Echo: {i}" for i in range(50)]


async def test_server_filesystem_reads_and_writes_below_its_folder_only(node: Node, tmp_path: Path) -> None:
    """[PEER-05] Over stdio, which is all that it has; what it refuses is an error result."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "a.txt").write_text("tea\n")
    server = {
        "command": ["mcp-server-filesystem", str(inside)],
        "env": {"PATH": node["PATH"]},
        "tools": ["read_text_file", "write_file", "list_directory"],
    }
    read, written, listed, refused = await results(
        server,
        call("s_read_text_file", path=str(inside / "a.txt")),
        call("s_write_file", path=str(inside / "b.txt"), content="cocoa"),
        call("s_list_directory", path=str(inside)),
        call("s_read_text_file", path="/etc/passwd"),
    )
    assert "tea" in read.output and not written.is_error and "a.txt" in listed.output
    assert (inside / "b.txt").read_text() == "cocoa"
    assert refused.is_error and "Access denied" in refused.output
