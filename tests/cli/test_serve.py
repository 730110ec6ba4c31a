"""`toolnexus serve`: a document's client for others."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.helpers import PROGRAM, below, environment, until
from tests.warm import Piped, Warm
from toolnexus.cli.main import main
from toolnexus.testing import ScriptedEndpoint

SERVER = Path(__file__).parents[1] / "servers" / "rough_mcp.py"


HELLO: list[dict[str, Any]] = [
    {
        "method": "initialize",
        "id": 1,
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
]


@contextmanager
def serving(warm: Warm, folder: Path, *arguments: str, **env: str) -> Generator[tuple[Piped, list[str]]]:
    """The command with the lines that it says at its start."""
    with program(warm, folder, *arguments, "--port", "0", **env) as process:
        lines: list[str] = []
        while not (lines and re.match(r"    \d+ tools?: ", lines[-1])):
            line = process.stderr.readline()
            assert line, lines
            lines.append(line.rstrip())
        yield process, lines


def program(warm: Warm, folder: Path, *arguments: str, **env: str) -> Piped:
    return warm.piped(PROGRAM, "serve", *arguments, cwd=folder, env=environment(folder, env))


def test_a_document_is_served_until_a_signal(warm: Warm, tmp_path: Path) -> None:
    """[CLI-115] It says where it listens and what there is; SIGTERM ends it, its servers and its runs."""
    with ScriptedEndpoint([{"text": "at your service"}, {"hang": True}]) as endpoint:
        document: dict[str, Any] = {
            "model": "openai:gpt-x",
            "base_url": endpoint.url,
            "builtins": False,
            "mcpServers": {"rough": {"command": sys.executable, "args": [str(SERVER)]}},
            "a2a": {"name": "clerk", "token": "${CLERK_TOKEN}"},
            "mcpServer": {"token": "${CLERK_TOKEN}", "tools": ["rough_echo"]},
        }
        (tmp_path / "t.json").write_text(json.dumps(document))
        with serving(warm, tmp_path, "--config", "t.json", CLERK_TOKEN="right-token") as (process, lines):
            url = lines[0].removeprefix("listening on ")
            assert url.startswith("http://127.0.0.1:")
            assert f"  A2A agent 'clerk': {url}/ (a token is needed)" in lines
            assert "right-token" not in "".join(lines)
            headers = {"authorization": "Bearer right-token", "a2a-version": "1.0"}
            with httpx.Client(base_url=url, headers=headers, timeout=20) as http:
                message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
                body: dict[str, Any] = {"message": message}
                task = http.post("/v1/message:send", json=body).json()["task"]
                assert task["artifacts"][0]["parts"][0]["text"] == "at your service"
                assert http.post("/", json={}, headers={"authorization": ""}).status_code == 401
                body["configuration"] = {"returnImmediately": True}
                assert http.post("/v1/message:send", json=body).status_code == 200
            children = below(process.pid)
            assert children
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 128 + signal.SIGTERM
            assert until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
            assert "Traceback" not in process.stderr.read()


def test_tools_are_served_over_pipes_without_a_model(warm: Warm, tmp_path: Path) -> None:
    """[CLI-116] `--stdio` needs no key and no table; standard output has the protocol alone; exit 0."""
    (tmp_path / "note.txt").write_text("milk")
    messages = [*HELLO, {"method": "tools/list", "id": 2}]
    with program(warm, tmp_path, "--stdio") as process:
        for message in messages:
            process.put(json.dumps({"jsonrpc": "2.0", **message}))
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert {t["name"] for t in answers[1]["result"]["tools"]} == {"question", "read", "grep", "glob"}
        process.stdin.close()
        rest, errors = process.stdout.read(), process.stderr.read()
        assert process.wait() == 0
    assert rest == "" and "Traceback" not in errors
    assert "there is no model" in errors


FLOWS = """
from toolnexus import Agent
from toolnexus.workflow import AgentStep, Fn, Sequential
flow = Sequential(Fn(str.upper), AgentStep(Agent(name="clerk", tools=[])), Fn(len), name="count")
"""


def test_a_workflow_is_served_without_a_document(warm: Warm, tmp_path: Path) -> None:
    """[WF-79] As an A2A agent; over pipes as a tool, beside what there is."""
    (tmp_path / "served_flows.py").write_text(FLOWS)
    with ScriptedEndpoint([{"text": "four"}, {"text": "seven77"}]) as endpoint:
        options = ["--workflow", "served_flows:flow", "--model", "openai:m", "--base-url", endpoint.url]
        with program(warm, tmp_path, *options, "--port", "0") as process:
            url = process.stderr.readline().strip().removeprefix("listening on ")
            assert "A2A agent 'count'" in process.stderr.readline()
            with httpx.Client(base_url=url, headers={"a2a-version": "1.0"}, timeout=20) as http:
                card = http.get("/.well-known/agent-card.json").json()
                assert [skill["name"] for skill in card["skills"]] == ["count"]
                message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
                task = http.post("/v1/message:send", json={"message": message}).json()["task"]
                assert task["artifacts"][0]["parts"][0]["data"] == 4
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 128 + signal.SIGTERM
        with program(warm, tmp_path, *options, "--stdio") as process:
            call = {"name": "count", "arguments": {"prompt": "hello"}}
            for message in (*HELLO, {"method": "tools/call", "id": 2, "params": call}):
                process.put(json.dumps({"jsonrpc": "2.0", **message}))
            answers = [json.loads(process.stdout.readline()) for _ in range(2)]
            assert answers[1]["result"]["content"][0]["text"] == "7"
    assert endpoint.requests[0].body["messages"][-1]["content"] == "HELLO"


@pytest.mark.parametrize(
    ("document", "arguments", "said"),
    [
        ({}, (), "nothing to serve: the document needs a table [a2a]"),
        ({"a2a": {"token": "${NO_SUCH}"}}, (), "a2a.token: needs the environment variable 'NO_SUCH'"),
        ({"mcpServer": {}}, ("--host", "0.0.0.0"), "host='0.0.0.0' is reached from other machines"),
        ({"mcpServer": {}}, ("--token-env", "NO_SUCH"), "--token-env: the environment has no 'NO_SUCH'"),
        ({"mcpServer": {"agents": ["helpr"]}}, (), "toolnexus: mcpServer.agents: there is no 'helpr'"),
        ({}, ("--workflow", "no_such_flows:x"), "cannot import 'no_such_flows': ModuleNotFoundError"),
        ({"mcpServer": {}}, ("--workflow", "json:dumps"), "is function, no workflow or agent"),
        ({"mcpServer": {}}, ("--port", "x"), "'x' must be a port, 0 to 65535"),
        ({"a2a": {"agent": "nobody"}}, (), "a2a.agent: there is no agent 'nobody'; registered: ['helper']"),
        ({"mcpServer": {"tools": ["raed"]}}, (), "toolnexus: mcpServer.tools: there is no 'raed'"),
        ({"mcpServer": {}}, ("--host", "0.0.0.0"), "give a token (--token-env NAME), or --allow-anonymous"),
    ],
)
def test_what_cannot_be_served_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    document: dict[str, Any],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    """[CLI-117] Exit 2, before anything listens."""
    options: dict[str, Any] = {
        "model": "openai:gpt-x",
        "base_url": "http://127.0.0.1:9/v1",
        "agents": {"helper": {}},
    }
    (tmp_path / "t.json").write_text(json.dumps({**options, **document}))
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["serve", "--config", "t.json", *arguments])
    except SystemExit as wrong:
        code = wrong.code
    told = capsys.readouterr()
    assert code == 2 and said in told.err and told.out == ""
