"""docs/stores.md: what it shows runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import toolnexus
from toolnexus.testing import ScriptedEndpoint, Turn

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "stores.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_what_the_page_shows_runs(tmp_path: Path) -> None:
    """[ST-33] The program, and the tests of a store of one's own; every store is in the table."""
    program, suite = PROGRAMS
    with ScriptedEndpoint({"gpt-5-mini": [Turn(text="Hello Ann.")]}) as endpoint:
        environment = {"OPENAI_BASE_URL": endpoint.url, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-W", "error", "-c", program]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
        )
    assert (done.stdout, done.stderr) == ("2\n", "")
    made: dict[str, type] = {}
    exec(suite, made)
    assert made["TestMyStore"]().make_store()
    named = set(re.findall(r"^\| `(\w+Store)\(", PAGE, re.MULTILINE))
    assert named == {name for name in toolnexus.__all__ if name.endswith("Store")} - {"Store"}
