"""docs/graph-deploy.md: what it shows runs, and its tables are complete."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from toolnexus.graph import BuildOptions, ParallelOptions, ResourceRegistry
from toolnexus.graph.deployment.document import LATER, AgentEntry, Policy, RuntimeEntry
from toolnexus.testing import ScriptedEndpoint, Turn, call

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[3] / "docs" / "graph-deploy.md").read_text()
FILES = dict(re.findall(r"^```yaml (\S+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


async def test_what_the_page_shows_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[GR-531] One program after the other, in one module, beside its documents."""
    (tmp_path / "notes.txt").write_text("Buy milk.")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    turns = [
        Turn(calls=[call("read", path="notes.txt")]),
        "It says: buy milk.",
    ]
    made: dict[str, Any] = {"__name__": "page"}
    async with ScriptedEndpoint(turns) as endpoint:
        monkeypatch.setenv("ACME_URL", endpoint.url)
        for program in PROGRAMS:
            code = compile(program, "graph-deploy.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if (running := eval(code, made)) is not None:
                await running
    assert capsys.readouterr().out.splitlines() == [
        "It says: buy milk.",
        "keep: about 1 tokens",
        "keep: about 2 tokens",
        "done ['Write.', 'short', 'Write at least 8 characters.', 'long enough']",
    ]
    assert "Buy milk." in str(endpoint.requests[1].body["messages"])


def test_the_tables_of_the_page_have_every_key_and_every_kind() -> None:
    """[GR-531] A key or an impl that is added is told there, too."""
    keys = [*AgentEntry.model_fields, *Policy.model_fields, *RuntimeEntry.model_fields]
    keys += [*BuildOptions.model_fields, *ParallelOptions.model_fields, *LATER]
    assert [key for key in keys if key not in PAGE] == []
    standard = ResourceRegistry.standard()
    rows = {
        (kind, impl): row
        for row in PAGE.splitlines()
        if (found := re.match(r"\| `([\w.]+)` / (.*?) \|", row))
        for kind in [found[1]]
        for impl in re.findall(r"`(\w+)`", found[2])
    }
    assert sorted(rows) == sorted((type.kind, type.impl) for type in standard)
    for type in standard:
        if type.kind == "agent.Engine":
            continue
        settings: Any = type.settings
        names = [] if settings is None else list(settings.model_fields)
        row = rows[type.kind, type.impl]
        assert [name for name in (*names, *type.deps) if f"`{name}" not in row] == [], row
