"""docs/graph-inference.md: what it shows runs."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.graph.inference.worlds import built, said, tool
from toolnexus.graph import Services
from toolnexus.graph.inference.targets import route
from toolnexus.graph.nodes.inference import InferenceConfig
from toolnexus.graph.scripts import JsRuntime
from toolnexus.testing import ScriptedEndpoint, ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[3] / "docs" / "graph-inference.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


async def test_what_the_page_shows_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[GR-379] Programs, the config, the script; every field of the config is in the table."""
    made: dict[str, Any] = {"__name__": "page"}
    turns = [{"calls": [{"name": "add", "args": {"a": 2, "b": 3}, "id": "c1"}]}, {"text": "five"}]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    async with ScriptedEndpoint(turns) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        for program in blocks("python"):
            code = compile(program, "graph-inference.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if (running := eval(code, made)) is not None:
                await running
        await made["model"].aclose()
    assert capsys.readouterr().out == "five\n"
    assert "Be brief." in endpoint.requests[0].raw.decode()
    assert [str(t) for t in route(made["services"], "gpt-5-mini", ["image"])] == ["openai/gpt-image-1"]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE.partition("## Who")[0], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"\w+", row)}
    prose = {"recover_pending_key", "recover_count_key", "recover_feedback_key"}
    assert named | prose == set(InferenceConfig.model_fields)


async def test_the_recovery_and_the_script_of_the_page_run() -> None:
    """[GR-379] As they stand there."""
    config = yaml.safe_load(blocks("yaml")[0])["config"]
    model = ScriptedModel([reply(call("ghost")), "sorry", "a sum"])
    script = {"id": "s", "type": "script", "config": {"runtime": "js", "source": blocks("js")[0]}}
    runtime = JsRuntime(pool_size=1)
    services = Services(models=model, toolkit=[tool("search")], scripts={"js": runtime})
    edges = [
        {"from": "llm", "to": "llm", "condition": "again == true"},
        {"from": "llm", "to": "s", "condition": "again == false"},
    ]
    graph = built([{"id": "llm", "type": "inference", "config": config}, script], services, edges)
    try:
        board = await graph.run(said("go"))
    finally:
        await runtime.close()
    assert (board.main[-1].text, board["summary"]) == ("sorry", "a sum")
