"""docs/serving.md: what it shows runs."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
import tomli

from toolnexus.config import Document
from toolnexus.serving.options import A2AOptions, Limits, McpOptions
from toolnexus.testing import ScriptedEndpoint
from toolnexus.tools.mcp_config import load_mcp_config

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text("utf-8")


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return text


def test_the_program_of_the_page_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[SRV-14] As it stands, but for the wait at its end."""
    with ScriptedEndpoint([]) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        exec(compile(block("python"), "page", "exec"), {"__name__": "__main__"})
    assert re.match(
        r"agent: http://127\.0\.0\.1:\d+ tools: http://127\.0\.0\.1:\d+/mcp \('levels',\)\n$",
        capsys.readouterr().out,
    )


def test_the_documents_of_the_page_are_read(tmp_path: Path) -> None:
    """[SRV-14] The one to serve, and the file of another host."""
    (tmp_path / "toolnexus.toml").write_text(block("toml"))
    served = Document.read(tmp_path / "toolnexus.toml").serving()
    assert set(served) == {"a2a", "mcp", "port"} and served["a2a"]["tasks"] == tmp_path / "tasks.db"
    assert tomli.loads(block("toml"))["mcpServer"]["tools"] == served["mcp"]["tools"]
    (server,) = load_mcp_config(json.loads(block("json")))
    assert server.name == "library" and server.problem is None


def test_the_page_names_every_option() -> None:
    """[SRV-14] Of `serve` and of both of its tables."""
    named = set(re.findall(r"`(\w+)`|\"(\w+)\"|^(\w+) = ", PAGE, re.MULTILINE))
    words = {word for words in named for word in words}
    for kind in (A2AOptions, McpOptions, Limits):
        assert {field.name for field in fields(kind)} - words <= {"version", "instructions"}
