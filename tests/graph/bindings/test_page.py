"""docs/graph-bindings.md: what it shows runs."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[3] / "docs" / "graph-bindings.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


async def test_what_the_page_shows_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """[GR-424] One program after the other, in one module."""
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    made: dict[str, Any] = {"__name__": "page"}
    for program in PROGRAMS:
        code = compile(program, "graph-bindings.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if (running := eval(code, made)) is not None:
            await running
    assert capsys.readouterr().out.splitlines() == [
        "hi ada",
        "['3 notes/a.txt\\n', \"the command 'sort' is not allowed here\"]",
        "[2, 4000, 'small']",
    ]
