"""docs/stores.md: what it shows runs."""

from __future__ import annotations

import re
from pathlib import Path

import toolnexus
from tests.warm import Warm
from toolnexus.testing import ScriptedEndpoint, Turn

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "stores.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_what_the_page_shows_runs(warm: Warm, tmp_path: Path) -> None:
    """[ST-33] The program, and the tests of a store of one's own; every store is in the table."""
    program, suite = PROGRAMS
    with ScriptedEndpoint({"gpt-5-mini": [Turn(text="Hello Ann.")]}) as endpoint:
        environment = {"OPENAI_BASE_URL": endpoint.url, "PATH": "/usr/bin:/bin"}
        done = warm.run(program, cwd=tmp_path, env=environment, strict=True)
    assert (done.stdout, done.stderr) == ("2\n", "")
    made: dict[str, type] = {}
    exec(suite, made)
    assert made["TestMyStore"]().make_store()
    named = set(re.findall(r"^\| `(\w+Store)\(", PAGE, re.MULTILINE))
    assert named == {name for name in toolnexus.__all__ if name.endswith("Store")} - {"Store"}
