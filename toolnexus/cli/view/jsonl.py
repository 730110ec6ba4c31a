"""A run as JSON: one event a line, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from toolnexus.core.events import Event


class JsonLines:
    """Writes every event to `out` as soon as it comes."""

    moves = False
    answered = True

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def feed(self, event: Event) -> None:
        # ASCII only: valid in whatever encoding, and lone surrogates stay what they are
        self._out.write(json.dumps(event.to_json(), default=str) + "\n")
        self._out.flush()

    def tick(self) -> None:
        """Nothing moves."""

    @contextmanager
    def aside(self) -> Generator[None]:
        yield

    def close(self) -> None:
        """Nothing to end."""
