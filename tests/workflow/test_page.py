"""docs/workflow.md: what it shows runs."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import toolnexus.workflow as workflow
from toolnexus.testing import ScriptedEndpoint

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "workflow.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


async def test_what_the_page_shows_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[WF-61] One program after the other; every node is in the table."""
    said = ["one?\ntwo?", "first", "second", "Filed."]
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {"__name__": "page"}
    async with ScriptedEndpoint([{"text": text} for text in said]) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        for program in PROGRAMS:
            code = compile(program, "workflow.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if (running := eval(code, made)) is not None:
                await running
    found, filed = capsys.readouterr().out.splitlines()
    assert sorted(ast.literal_eval(found)) == ["first", "second"] and filed == "Filed."
    async with toolnexus_client() as one:
        assert (await one.run(made["twice"], "a")).output == ["A", "A"]
    assert "Doubt old ones, too." in made["north"].system_prompt
    rows = set(re.findall(r"^\| `(\w+)\(", PAGE, re.MULTILINE))
    nodes = {
        name for name in workflow.__all__ if isinstance(v := getattr(workflow, name), type) and is_node(v)
    }
    assert rows == (nodes - {"Node"}) | {"with_runner"}


def toolnexus_client() -> Any:
    from toolnexus import Client
    from toolnexus.testing import ScriptedModel

    return Client(model=ScriptedModel(), builtins=False)


def is_node(value: type) -> bool:
    return issubclass(value, workflow.Node)
