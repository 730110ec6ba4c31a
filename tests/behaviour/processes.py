"""Runs jobs of `resumers.py`, each in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.warm import Warm


class Processes:
    """One process that forks the others; `drivers` are modules that they need."""

    def __init__(self, warm: Warm, *drivers: str) -> None:
        self.of = warm.piped(Path(__file__).with_name("resumers.py"), *drivers)

    def run(self, *jobs: dict[str, Any]) -> list[list[Any]]:
        """What each job did; all run at once."""
        self.of.put(json.dumps(jobs))
        return json.loads(self.of.stdout.readline())

    def close(self) -> None:
        with self.of:
            self.of.stdin.close()
            self.of.wait(30)
