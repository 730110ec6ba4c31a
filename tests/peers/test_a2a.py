"""Agents and callers that others have made, in both directions.

a2a-sdk 1.x itself, both ways, over both bindings: tests/a2a/test_remote.py and tests/serving/test_a2a.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.peers.programs import free_port, listening
from tests.serving.kit import Kit, client
from toolnexus import Answer, Client, RemoteAgent, Request, RunError, TextDelta, serve
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = [pytest.mark.anyio, pytest.mark.peers]

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Peer:
    """What another SDK runs: a caller and an agent."""

    kind: str
    runs: tuple[str, ...]
    suffix: str
    env: Mapping[str, str]

    def command(self, program: str, *arguments: str) -> list[str]:
        return [*self.runs, str(HERE / f"a2a_{self.kind}" / f"{program}{self.suffix}"), *arguments]


@pytest.fixture(params=["old", "js"])
def peer(request: pytest.FixtureRequest) -> Peer:
    if request.param == "old":
        python: Path = request.getfixturevalue("old_python")
        return Peer("old", (str(python),), ".py", {})
    node: dict[str, str] = request.getfixturevalue("node")
    return Peer("js", ("node",), ".cjs", node)


bindings = pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])


async def output(*command: str, env: Mapping[str, str]) -> dict[str, Any]:
    """The JSON that a program says."""
    pipe = asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_exec(*command, env=env, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(60):
            out, errors = await program.communicate()
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    assert program.returncode == 0, errors.decode()
    return json.loads(out)


@bindings
async def test_a_caller_has_answers_streams_questions_and_cancels(peer: Peer, binding: str) -> None:
    """[PEER-10] Of our agent: over either binding, and nothing without the token."""
    kit = Kit()
    a2a = {"name": "Clerk", "description": "Does small things.", "token": "right-token"}
    async with client(kit) as owner, serve(owner, a2a=a2a) as server:
        command = peer.command("client", server.url, "right-token", binding)
        seen = await output(*command, env=peer.env)
        assert kit.paid == ["ann"]
        async with asyncio.timeout(5):
            await kit.cancelled.wait()
    helped = {"state": "completed", "text": "helped with 'hello'", "said": ""}
    assert seen == {
        "name": "Clerk",
        "skills": ["helper", "hidden"],
        "plain": helped,
        "kinds": ["artifact-update", "status-update", "task"],
        "streamed": helped,
        "asked": {"state": "input-required", "text": "", "said": "pay ann?"},
        "answered": {"state": "completed", "text": "paid ann", "said": ""},
        "cancelled": {"state": "canceled", "text": "", "said": ""},
        "stranger": 401,
    }


@asynccontextmanager
async def agent(peer: Peer, binding: str) -> AsyncGenerator[RemoteAgent]:
    port, path = free_port(), {"JSONRPC": "jsonrpc", "HTTP+JSON": "rest"}[binding]
    async with listening(*peer.command("server", str(port)), ready="running on", env=peer.env):
        yield RemoteAgent("far", url=f"http://127.0.0.1:{port}/{path}")


@bindings
async def test_an_agent_answers_streams_asks_and_is_cancelled(peer: Peer, binding: str) -> None:
    """[PEER-11] As a remote agent of ours: run, delegated to and as a tool."""

    async def on_request(request: Request) -> Answer:
        assert request.prompt == "which colour?"
        return Answer(id=request.id, data="blue")

    calls = reply(call("task", agent="far", prompt="work"), call(f"{peer.kind}_paint", task="work"))
    model = ScriptedModel([calls, "done"])
    async with agent(peer, binding) as far, asyncio.timeout(60):
        options: Any = {"agents": [far], "tools": [far], "on_request": on_request}
        async with Client(model=model, builtins=False, **options) as c:
            assert (await c.run("far", "work")).text == "did: work"
            assert (await c.run("far", "message hi")).text == "said: hi"
            assert (await c.run("far", "stream")).text == "chunk0 chunk1 chunk2 "
            assert (await c.run("far", "ask")).text == "did: blue"
            with pytest.raises(RunError, match="failed: out of paper"):
                await c.run("far", "fail")
            results = (await c.ask("go")).messages[2].tool_results
            assert [result.output for result in results] == ["did: work", "did: work"]
            async with c.stream("hang", target="far") as stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        break
            assert (await c.run("far", "cancelled")).text == "1 cancelled"
