"""Runs jobs of `resumers.py`, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


class Processes:
    """One process that forks the others; `drivers` are modules that they need."""

    def __init__(self, *drivers: str) -> None:
        program = [sys.executable, str(Path(__file__).with_name("resumers.py")), *drivers]
        self.of = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, *jobs: dict[str, Any]) -> list[list[Any]]:
        """What each job did; all run at once."""
        assert self.of.stdin is not None and self.of.stdout is not None
        self.of.stdin.write(json.dumps(jobs) + "\n")
        self.of.stdin.flush()
        return json.loads(self.of.stdout.readline())

    def close(self) -> None:
        self.of.communicate(timeout=30)
