"""Fixture files: found, read, held against the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, cast

from jsonschema import Draft202012Validator, exceptions

Data = dict[str, Any]

SET_UP = ("client", "agents", "files", "run", "expect")
"""The keys of a case that ask something of an implementation."""


class FixtureError(Exception):
    """A file is no fixture. Says where in the file and why."""


@cache
def home() -> Path:
    """The folder of schemas and fixtures. Raises `FixtureError` when the installation has none."""
    here = Path(__file__).resolve()
    for candidate in (here.parent / "data", here.parents[3] / "conformance"):
        if (candidate / "fixture.schema.json").is_file():
            return candidate
    raise FixtureError("the fixtures are missing; install the package again")


@cache
def validator(name: str = "fixture") -> Any:
    """The schema of fixture files, or of the messages of a `driver`."""
    return Draft202012Validator(json.loads((home() / f"{name}.schema.json").read_text(encoding="utf-8")))


def complaint(document: Any, name: str = "fixture") -> str | None:
    """Where `document` is not what the schema says, and why."""
    wrong = cast(Any, exceptions).best_match(validator(name).iter_errors(document))
    return None if wrong is None else f"{wrong.json_path}: {wrong.message}"


def load(path: Path) -> list[Data]:
    """The cases of the file at `path`, each with what it takes from `common`. Raises `FixtureError`."""
    try:
        document: Data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FixtureError(f"{path}: {error}") from error
    if (wrong := complaint(document)) is not None:
        raise FixtureError(f"{path}: {wrong}")
    cases = [{**document.get("common", {}), **case} for case in document["cases"]]
    names = [case["name"] for case in cases]
    if double := sorted({name for name in names if names.count(name) > 1}):
        raise FixtureError(f"{path}: several cases are named {', '.join(map(repr, double))}")
    for case in cases:
        if unknown := sorted(_gates(case) - set(case.get("gates", ()))):
            raise FixtureError(f"{path}: case {case['name']!r} uses gates that it does not have: {unknown}")
    return cases


def _gates(case: Data) -> set[str]:
    waiting = [*case.get("replies", ()), *(tool.get("does", {}) for tool in case.get("tools", ()))]
    named = {part["gate"] for part in waiting if "gate" in part}
    return named | {step["cancel"] for step in case.get("run", ()) if "cancel" in step}


def find(paths: Sequence[Path] = ()) -> list[Path]:
    """The files at `paths`, and every fixture below a folder; without any, those that come with the package.

    A fixture is a file `fixture.json`, or any `.json` file in a folder `fixtures`. Raises `FixtureError`.
    """
    roots = paths or [root for root in _roots() if root.is_dir()]
    files = [file for root in roots for file in (_below(root) if root.is_dir() else [root])]
    if not files:
        raise FixtureError(f"no fixture below {', '.join(map(str, roots))}")
    return files


def _roots() -> list[Path]:
    beside = home() / "examples"  # in an installation they lie below the data
    return [beside if beside.is_dir() else home().parent / "examples", home() / "fixtures"]


def _below(root: Path) -> list[Path]:
    return [
        file
        for file in sorted(root.rglob("*.json"))
        if file.name == "fixture.json" or "fixtures" in file.resolve().parent.parts
    ]


def label(path: Path) -> str:
    """What a file is called in a table: its folder and its name, or the folder alone."""
    return path.parent.name if path.name == "fixture.json" else f"{path.parent.name}/{path.stem}"


def features(case: Data) -> set[str]:
    """What a case asks of an implementation: dotted keys such as `client.budget.requests`."""
    return {path for key in SET_UP if key in case for path in _paths(case[key], key)}


def without(case: Data, unknown: Sequence[str]) -> tuple[Data, list[str]]:
    """The case without the expectations that `unknown` names, and which of them it had."""
    left = deepcopy(case)
    return left, [path for path in unknown if is_expectation(path) and _taken(left, path.split("."))]


def is_expectation(path: str) -> bool:
    """Whether a dotted key is of what is expected, not of what is set up or done."""
    return "expect" in path.split(".")


def _taken(value: Any, keys: Sequence[str]) -> bool:
    if isinstance(value, list):
        return any([_taken(item, keys) for item in cast("list[Any]", value)])
    if not isinstance(value, dict) or keys[0] not in value:
        return False
    if len(keys) > 1:
        return _taken(value[keys[0]], keys[1:])
    del value[keys[0]]
    return True


def _paths(value: Any, path: str) -> Iterator[str]:
    yield path
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _paths(item, path)
    if isinstance(value, dict):
        for key, item in cast(Data, value).items():
            yield from _paths(item, f"{path}.{key}")
