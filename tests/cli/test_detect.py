"""Which model a command finds, and what it says when there is none."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from toolnexus.cli import detect
from toolnexus.cli.detect import ANTHROPIC_MODEL, OPENAI_MODEL, Found, choose
from toolnexus.cli.exits import UsageError
from toolnexus.cli.main import main


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, no model, no local server."""
    for name in (
        "TOOLNEXUS_MODEL",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(detect, "LOCAL_SERVERS", ())


@contextmanager
def listing(body: Any, status: int = 200) -> Generator[tuple[int, list[str | None]]]:
    """A server that lists models; gives its port and the keys that it was sent."""
    keys: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers.get("authorization"))
            data = json.dumps(body).encode()
            self.send_response(status if self.path == "/v1/models" else 404)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Be quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port, keys
        finally:
            server.shutdown()
            thread.join()


def models(*names: str) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name} for name in names]}


def test_the_order_is_named_model_endpoint_key_local_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """[CLI-60] --model, TOOLNEXUS_MODEL, OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_API_KEY, a server on this
    machine: the first one there is."""
    with listing(models("nomic-embed-text", "qwen3:4b")) as (port, keys):
        monkeypatch.setattr(detect, "LOCAL_SERVERS", (("Nobody", 9), ("Ollama", port)))
        url = f"http://127.0.0.1:{port}/v1"
        assert choose() == Found(spec="openai:qwen3:4b", base_url=url, why=f"Ollama on port {port}")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-a")
        assert choose() == Found(spec=ANTHROPIC_MODEL, why="ANTHROPIC_API_KEY")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-o")
        assert choose() == Found(spec=OPENAI_MODEL, why="OPENAI_API_KEY")
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        assert choose() == Found(spec="openai:qwen3:4b", base_url=url, why="OPENAI_BASE_URL")
        assert set(keys) == {None}  # a key goes to its own host only
        monkeypatch.setenv("TOOLNEXUS_MODEL", "anthropic:a")
        assert choose() == Found(spec="anthropic:a", why="TOOLNEXUS_MODEL")
        assert choose("openai:b", url).spec == "openai:b"


@pytest.mark.parametrize(
    ("body", "status"),
    [("hello", 200), ({"data": 3}, 200), ({"data": ["x"]}, 200), (models(), 200), (models("x"), 404)],
)
def test_what_is_no_list_of_models_is_no_server(body: Any, status: int) -> None:
    """[CLI-61] Whatever else answers on such a port is passed over."""
    with listing(body, status) as (port, _):
        assert detect.first_model(f"http://127.0.0.1:{port}/v1") is None


def test_an_endpoint_without_a_named_model_is_asked_for_one() -> None:
    """[CLI-62] `--base-url` alone takes the first model that the endpoint lists, or says how to name one."""
    with listing(models("only")) as (port, _):
        url = f"http://127.0.0.1:{port}/v1"
        assert choose(base_url=url, api_key="k").spec == "openai:only"
    with pytest.raises(UsageError, match="lists no model; name one with --model openai:NAME"):
        choose(base_url="http://127.0.0.1:9/v1")


@pytest.mark.parametrize("command", [["run", "hi"], ["chat"], ["demo", "--live"], ["translate", "-"]])
def test_without_a_model_three_ways_are_named(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """[CLI-63] No key and no server: exit code 2 and three lines to paste, whatever the command."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("{}"))
    assert main(command) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "toolnexus: no model is set. Three ways to go on, each a line to paste:"
    ways = [line.split("#")[0].strip() for line in lines if line.startswith("  ")]
    assert [way.split()[0] for way in ways] == ["export", "ollama", "export"]
    assert lines[-1].endswith("toolnexus demo")


def test_the_third_way_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """[CLI-63] Variables alone name any other endpoint, for every command."""
    with listing(models("only")) as (port, _):
        monkeypatch.setenv("TOOLNEXUS_MODEL", "openai:mine")
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
        assert choose().spec == "openai:mine"


def test_a_model_without_its_key_gets_the_same_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[CLI-64] A named model whose host needs a key that is missing: what is missing, and the three ways."""
    monkeypatch.setenv("TOOLNEXUS_MODEL", "openai:gpt-5-mini")
    assert main(["run", "hi"]) == 2
    said = capsys.readouterr().err
    assert "'openai:gpt-5-mini' (TOOLNEXUS_MODEL): api.openai.com needs a key" in said
    assert "--api-key-env NAME" in said and "--base-url URL" in said and "api_key" not in said
    assert "Three ways to go on" in said
    assert main(["run", "hi", "--model", "opnai:x"]) == 2
    assert "did you mean 'openai'" in capsys.readouterr().err


def test_a_model_can_be_written_down_without_its_key() -> None:
    """[CLI-65] What `--save` writes for a model is Python without any key."""
    assert Found(spec="openai:a", api_key="sk-1", why="").expression == "'openai:a'"
    local = Found(spec="openai:q:4b", base_url="http://127.0.0.1:1/v1", api_key="sk-1", why="")
    assert local.expression == "OpenAIModel('q:4b', base_url='http://127.0.0.1:1/v1')"
