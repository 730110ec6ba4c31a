"""Fixture files: found, read, held against the schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from jsonschema import Draft202012Validator, exceptions

Data = dict[str, Any]
HERE = Path(__file__).resolve().parent


class FixtureError(Exception):
    """A file is no fixture. Says where in the file and why."""


@cache
def validator() -> Any:
    """The schema of fixture files."""
    return Draft202012Validator(json.loads((HERE / "fixture.schema.json").read_text(encoding="utf-8")))


def load(path: Path) -> list[Data]:
    """The cases of the file at `path`, each with what it takes from `common`. Raises `FixtureError`."""
    try:
        document: Data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FixtureError(f"{path}: {error}") from error
    wrong = cast(Any, exceptions).best_match(validator().iter_errors(document))
    if wrong is not None:
        raise FixtureError(f"{path}: {wrong.json_path}: {wrong.message}")
    cases = [{**document.get("common", {}), **case} for case in document["cases"]]
    names = [case["name"] for case in cases]
    if double := sorted({name for name in names if names.count(name) > 1}):
        raise FixtureError(f"{path}: several cases are named {', '.join(map(repr, double))}")
    for case in cases:
        waiting = [*case.get("replies", ()), *(tool.get("does", {}) for tool in case.get("tools", ()))]
        if unknown := sorted({w["gate"] for w in waiting if "gate" in w} - set(case.get("gates", ()))):
            raise FixtureError(f"{path}: case {case['name']!r} uses gates that it does not have: {unknown}")
    return cases


def find(paths: Sequence[Path] = ()) -> list[Path]:
    """The files at `paths`, and every fixture.json below a folder; without any, those of this repository."""
    roots = paths or [HERE.parent / "examples", HERE]
    files = [f for root in roots for f in (sorted(root.rglob("fixture.json")) if root.is_dir() else [root])]
    if not files:
        raise FixtureError(f"no fixture.json below {', '.join(map(str, roots))}")
    return files
