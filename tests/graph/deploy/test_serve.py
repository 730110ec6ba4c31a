"""`toolnexus serve --config` of a deployment document."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.helpers import cli
from tests.graph.deploy.documents import write
from toolnexus import ConfigError, load
from toolnexus.cli.serve_deployment import about, chosen, serving
from toolnexus.graph import deploy
from toolnexus.testing import ScriptedEndpoint

pytestmark = pytest.mark.anyio

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


async def test_the_agents_of_a_deployment_are_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[GR-527] Each as a tool over MCP, one over A2A under its card, behind the token."""
    path = write(tmp_path, DOCUMENT + OTHER)
    async with ScriptedEndpoint(["at your service"]) as endpoint, asyncio.timeout(30):
        monkeypatch.setenv("URL", endpoint.url)
        deployment = deploy(path)
        agent = chosen(deployment, "asst")
        async with serving(deployment, agent, "right-token", {}, {"port": 0}) as server:
            url = server.url
            assert about(server, agent, "right-token") == [
                f"listening on {url}",
                f"  A2A agent 'The Clerk': {url}/ (a token is needed)",
                f"  MCP server: {url}/mcp (a token is needed)",
                "    agents: asst, other",
            ]
            assert "choose one with --agent" in about(server, None, None)[1]
            headers = {"authorization": "Bearer right-token", "a2a-version": "1.0"}
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
            async with httpx.AsyncClient(base_url=url, headers=headers, timeout=20) as http:
                card = (await http.get("/.well-known/agent-card.json")).json()
                assert (card["name"], card["description"]) == ("The Clerk", "Answers.")
                assert (await http.post("/", json={}, headers={"authorization": ""})).status_code == 401
                task = (await http.post("/v1/message:send", json={"message": message})).json()["task"]
        assert task["artifacts"][0]["parts"][0]["text"] == "at your service"
        with pytest.raises(ConfigError, match="this deployment is closed"):
            await deployment.open()


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


def test_over_its_own_pipes_it_serves_until_the_caller_is_gone(tmp_path: Path) -> None:
    """[GR-527] `--stdio` needs neither port nor token."""
    write(tmp_path, DOCUMENT)
    said = cli(tmp_path, "serve", "--config", "deploy.yaml", "--stdio", env={"URL": "http://h"})
    assert (said.returncode, said.stderr) == (0, "")


def test_what_does_not_go_with_a_deployment_is_told(tmp_path: Path) -> None:
    """[GR-527] Options of a client; a wrong document; `--agent` without one."""
    write(tmp_path, DOCUMENT)
    env = {"URL": "http://127.0.0.1:1"}
    more = ("--model", "openai:x", "--mcp", "m.json", "--workflow", "a:b")
    said = cli(tmp_path, "serve", "--config", "deploy.yaml", *more, env=env)
    assert said.returncode == 2
    assert "not to be given with it: mcp, model, workflow" in said.stderr
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
