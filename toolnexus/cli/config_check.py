"""`toolnexus config check`: everything that is wrong in a config document, and nothing started."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
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
    except ConfigError as error:
        return _judged(file, findings=str(error).splitlines())
    missing, report = document.lacking(), list(document.report)
    wrong, lacking = _tasks(document)
    missing += lacking
    if wrong:
        return _judged(file, findings=wrong, missing=missing, report=report)
    try:
        document.view().close()
    except ConfigError as error:
        findings = [line for line in str(error).splitlines() if line not in missing]
        if findings:
            return _judged(file, findings=findings, missing=missing, report=report)
    else:
        missing = missing or _keys(document)
    return _judged(file, missing=missing, report=report)


def _judged(
    file: str, findings: Sequence[str] = (), missing: Sequence[str] = (), report: Sequence[str] = ()
) -> dict[str, Any]:
    ok = not findings
    return {"file": file, "ok": ok, "findings": [*findings], "missing": [*missing], "report": [*report]}


def _keys(document: Document) -> list[str]:
    """What else is not there: keys, since nothing is wrong with the rest."""
    try:
        document.client().close()
    except ConfigError as error:
        return str(error).splitlines()
    return []


def _tasks(document: Document) -> tuple[list[str], list[str]]:
    """What is wrong with the place of an A2A agent's tasks, and what it lacks.

    Only here, and where it is served: it loads the database library.
    """
    from toolnexus.serving.a2a.database import make_engine

    try:
        place = document.serving().get("a2a", {}).get("tasks")
    except ConfigError:  # a variable that is not set, which is told already
        return [], []
    try:
        if place is not None:
            make_engine(place)
    except ConfigError as error:
        line = [f"{document.where}: {error}"]
        is_lack = isinstance(error.__cause__, ImportError) or "://" not in str(place)
        return ([], line) if is_lack else (line, [])
    return [], []


def _tell(verdict: dict[str, Any]) -> None:
    for line in (*verdict["report"], *verdict["missing"]):
        print(printable(f"note: {line}"))
    for line in verdict["findings"]:
        print(printable(line), file=sys.stderr)
    if verdict["ok"]:
        print(printable(f"{verdict['file']}: ok"))
