"""`toolnexus config check`: everything that is wrong in a config document, and nothing started."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from typing import Any

from toolnexus.cli.exits import DONE, USAGE
from toolnexus.cli.view.words import printable
from toolnexus.config.document import Document
from toolnexus.errors import ConfigError


def command(options: Namespace) -> int:
    """Check each file. Gives the exit code."""
    verdicts = [_verdict(file) for file in options.files]
    for verdict in verdicts:
        if options.json:
            print(json.dumps(verdict, ensure_ascii=False))
        else:
            _tell(verdict)
    return DONE if all(verdict["ok"] for verdict in verdicts) else USAGE


def _verdict(file: str) -> dict[str, Any]:
    try:
        document = Document.read(file)
        document.client().close()
    except ConfigError as error:
        return {"file": file, "ok": False, "findings": str(error).splitlines(), "report": []}
    return {"file": file, "ok": True, "findings": [], "report": list(document.report)}


def _tell(verdict: dict[str, Any]) -> None:
    for line in verdict["report"]:
        print(printable(f"note: {line}"))
    for line in verdict["findings"]:
        print(printable(line), file=sys.stderr)
    if verdict["ok"]:
        print(printable(f"{verdict['file']}: ok"))
