"""docs/sub-agents.md: what it shows runs."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from toolnexus import Agent, Client
from toolnexus.testing import ScriptedEndpoint, Turn

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "sub-agents.md").read_text(encoding="utf-8")


async def test_the_programs_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[DOC-11] One after the other, as they stand, against an endpoint."""

    def answer(body: dict[str, Any]) -> Turn:
        text = str(body["messages"])
        offered = str(body.get("tools"))
        if "you explore" in text and "Have the login" not in text and "Where is" not in text:
            return Turn(text=f"explored {text.count('you explore')}")
        if "explored" in str(body["messages"][-1]):
            return Turn(text="the end")
        more: dict[str, Any] = {}
        if "task_id" in offered and "tested?" in text:
            more["task_id"] = re.findall(r"task_id: ([^\]]+)\]", text)[0]
        if "'background'" in offered:
            more["background"] = True
        if "started in the background" in text:
            return Turn(text="meanwhile I read")
        return Turn(calls=[{"name": "task", "args": {"agent": "explore", "prompt": "you explore", **more}}])

    monkeypatch.chdir(tmp_path)
    with ScriptedEndpoint(answer) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        given: dict[str, Any] = {}
        programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
        for program in programs:
            ran = eval(compile(program, "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), given)
            if inspect.isawaitable(ran):
                await ran
        asked = [str(request.body["messages"]) for request in endpoint.requests]
    assert len(programs) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("explore done ") and lines[1].startswith("('main', 'explore.")
    assert lines[-1] == "the end"
    assert any(text.count("you explore") == 2 and "explored 1" in text for text in asked)


def test_the_document_of_the_page_is_one() -> None:
    """[DOC-11] The options of `builtins` are those of the client."""
    (line,) = re.findall(r"`(builtins = \{.*?\})`", PAGE)
    options = tomllib.loads(line)["builtins"]
    client = Client(
        model="openai:gpt-5-mini", api_key="k", builtins=options, agents=[Agent(name="x", description="d")]
    )
    assert {"task", "task_wait", "task_stop"} <= set(client.toolkit.names())
