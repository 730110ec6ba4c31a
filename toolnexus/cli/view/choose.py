"""Which view fits the place it is shown at."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import TextIO

from toolnexus.cli.view.base import View
from toolnexus.cli.view.jsonl import JsonLines
from toolnexus.cli.view.plain import PlainLines


def choose_view(out: TextIO, *, plain: bool, json: bool, answer: TextIO | None = None) -> View:
    """JSON lines on stdout, a live tree when `out` is a terminal and `rich` is there, or plain lines.

    `answer` is where plain lines also put the text of the top run.
    """
    if json:
        return JsonLines(sys.stdout)
    if plain or not out.isatty() or os.environ.get("TERM") == "dumb" or find_spec("rich") is None:
        return PlainLines(out, answer)
    from toolnexus.cli.view.live import LiveTree

    return LiveTree(out)
