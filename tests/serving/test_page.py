"""docs/serving.md: what it shows runs."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from contextlib import AsyncExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import tomli

from toolnexus import Client, serve
from toolnexus.config import Document
from toolnexus.serving.options import A2AOptions, Limits, McpOptions
from toolnexus.testing import ScriptedEndpoint, ScriptedModel
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


@pytest.mark.anyio
async def test_what_curl_is_told_is_answered() -> None:
    """[SRV-14] The card needs no token, both protocols do."""
    lines = re.sub(r"^#.*\n", "", block("sh"), flags=re.MULTILINE).replace("\\\n", "").replace("$TOKEN", "t")
    words = shlex.split(lines)
    begins = [n for n, word in enumerate(words) if word == "curl"]
    answers: list[Any] = []
    async with asyncio.timeout(20), AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(model=ScriptedModel(["three"]), builtins=["read"]))
        card = {"name": "x", "description": "y", "token": "t"}
        server = await stack.enter_async_context(
            serve(client, a2a=card, mcp={"tools": ["read"], "token": "t"})
        )
        http = await stack.enter_async_context(aiohttp.ClientSession())
        for begin, end in zip(begins, [*begins[1:], len(words)], strict=True):
            _, _, url, *options = words[begin:end]
            given = list(zip(options[::2], options[1::2], strict=True))
            headers = dict(value.split(": ", 1) for flag, value in given if flag == "-H")
            body = next((value for flag, value in given if flag == "-d"), None)
            url = url.replace("http://127.0.0.1:8000", server.url)
            async with http.request(
                "GET" if body is None else "POST", url, headers=headers, data=body
            ) as got:
                answers.append(await got.json())
    card, task, tools = answers
    assert card["name"] == "x"
    assert task["result"]["task"]["artifacts"][0]["parts"][0]["text"] == "three"
    assert [tool["name"] for tool in tools["result"]["tools"]] == ["read"]
