"""docs/graph-scripts.md: what it shows runs."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[3] / "docs" / "graph-scripts.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


async def test_what_the_page_shows_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """[GR-237] One program after the other, in one module."""
    made: dict[str, Any] = {"__name__": "page"}
    for program in PROGRAMS:
        code = compile(program, "graph-scripts.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if (running := eval(code, made)) is not None:
            await running
    assert capsys.readouterr().out.splitlines() == [
        "{'apples': 1}",
        "interrupt there are 1 apples",
        "conflict sell:1: there are 0 pears",
    ]
