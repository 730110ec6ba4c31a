"""The files of this folder are checked by pyright; see workflow_types.py."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_output_types_are_inferred() -> None:
    """[WF-60] pyright reads the types of workflows that nobody annotated."""
    pytest.importorskip("pyright")
    files = [str(path) for path in sorted(Path(__file__).parent.glob("*_types.py"))]
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert "0 errors" in done.stdout, done.stdout
    assert done.returncode == 0
