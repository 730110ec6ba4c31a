"""What the tests of function tools share."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import toolnexus


@pytest.fixture
def run_python() -> Callable[..., str]:
    """Run a program in a fresh interpreter that finds the package; gives what it printed."""

    def run(program: str, **env: str) -> str:
        home = Path(toolnexus.__file__).parents[1]
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=home,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
