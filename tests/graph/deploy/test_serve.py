"""`toolnexus serve --config` of a deployment document."""

import json
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.helpers import CLI, cli, environment
from tests.graph.deploy.documents import write
from toolnexus import ConfigError, load
from toolnexus.cli.serve_deployment import chosen
from toolnexus.graph import deploy
from toolnexus.testing import ScriptedEndpoint

DOCUMENT = """
resources:
  acme: {kind: inference.Provider, impl: openai, settings: {models: [m], base_url: "${URL}"}}
  infer: {kind: inference.Assembly, impl: unified, deps: {provider: acme}}
agents:
  asst:
    card: {name: The Clerk, description: Answers.}
    engine:
      kind: agent.Engine
      impl: graph
      deps: {inference: infer}
      settings:
        graph:
          name: asst
          entry: chat
          nodes:
            - {id: chat, type: inference, config: {model: {id: {provider: acme, name: m}}}}
          edges: [{from: chat, to: __end__}]
"""
OTHER = DOCUMENT.partition("agents:\n")[2].replace("asst", "other").replace("The Clerk", "Other")


@contextmanager
def serving(folder: Path, *arguments: str, **env: str) -> Generator[tuple[subprocess.Popen[str], list[str]]]:
    """The command, with the lines that it says at its start."""
    command = [*CLI, "serve", "--config", "deploy.yaml", "--port", "0", *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=environment(folder, env), text=True, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stderr is not None
            lines: list[str] = []
            while not (lines and lines[-1].startswith("    agents: ")):
                line = process.stderr.readline()
                assert line, lines
                lines.append(line.rstrip())
            yield process, lines
        finally:
            process.kill()


def test_the_agents_of_a_deployment_are_served_until_a_signal(tmp_path: Path) -> None:
    """[GR-527] Each as a tool over MCP, one over A2A under its card; a signal closes everything."""
    write(tmp_path, DOCUMENT + OTHER)
    arguments = ("--agent", "asst", "--token-env", "TOK")
    with (
        ScriptedEndpoint(["at your service"]) as endpoint,
        serving(tmp_path, *arguments, URL=endpoint.url, TOK="right-token") as (process, lines),
    ):
        url = lines[-4].removeprefix("listening on ")
        assert lines[-3:] == [
            f"  A2A agent 'The Clerk': {url}/ (a token is needed)",
            f"  MCP server: {url}/mcp (a token is needed)",
            "    agents: asst, other",
        ]
        headers = {"authorization": "Bearer right-token", "a2a-version": "1.0"}
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        with httpx.Client(base_url=url, headers=headers, timeout=20) as http:
            card = http.get("/.well-known/agent-card.json").json()
            assert (card["name"], card["description"]) == ("The Clerk", "Answers.")
            task = http.post("/v1/message:send", json={"message": message}).json()["task"]
        assert task["artifacts"][0]["parts"][0]["text"] == "at your service"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM


def test_the_only_agent_answers_over_a2a_and_of_several_none_unless_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[GR-527] `--agent` names it; an unknown name is told with the others."""
    monkeypatch.setenv("URL", "http://127.0.0.1:1")
    one = deploy(write(tmp_path, DOCUMENT))
    assert chosen(one, None) is chosen(one, "asst") is one.agents["asst"]
    assert chosen(deploy(write(tmp_path, DOCUMENT + OTHER)), None) is None
    said = cli(tmp_path, "serve", "--config", "deploy.yaml", "--agent", "othr", env={"URL": "http://h"})
    assert said.returncode == 2
    assert "there is no agent 'othr'; did you mean 'other'?; agents: asst, other" in said.stderr


def test_what_does_not_go_with_a_deployment_is_told(tmp_path: Path) -> None:
    """[GR-527] Options of a client; a wrong document; `--agent` without one."""
    write(tmp_path, DOCUMENT)
    env = {"URL": "http://127.0.0.1:1"}
    more = ("--model", "openai:x", "--mcp", "m.json")
    said = cli(tmp_path, "serve", "--config", "deploy.yaml", *more, env=env)
    assert said.returncode == 2
    assert "not to be given with it: mcp, model" in said.stderr
    write(tmp_path, DOCUMENT.replace("provider: acme}", "provider: acm}"), "bad.yaml")
    said = cli(tmp_path, "serve", "--config", "bad.yaml", env=env)
    assert said.returncode == 2
    assert "bad.yaml cannot be deployed:" in said.stderr
    assert "line 3: resources.infer.deps.provider: there is no resource 'acm'; did you mean" in said.stderr
    write(tmp_path, '{"model": "openai:x", "a2a": {}}', "client.json")
    said = cli(tmp_path, "serve", "--config", "client.json", "--agent", "x")
    assert said.returncode == 2 and "give one as --config" in said.stderr


@pytest.mark.parametrize("data", [{"resources": {}}, {"runtime": {}}, {"agents": {"a": {"engine": {}}}}])
def test_a_deployment_document_is_no_config_document(data: dict[str, Any], tmp_path: Path) -> None:
    """[GR-527] Told apart by `resources`, `runtime` or the `engine` of an agent."""
    (tmp_path / "t.json").write_text(json.dumps(data))
    said = cli(tmp_path, "serve", "--config", "t.json")
    assert (said.returncode, "t.json cannot be deployed:" in said.stderr) == (2, True)
    if "agents" not in data:
        with pytest.raises(
            ConfigError, match="this is of a deployment document, which `toolnexus serve` serves"
        ):
            load(tmp_path / "t.json")
