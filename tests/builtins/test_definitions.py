"""Definitions and implementations of the builtins."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import toolnexus.tools.builtin as package
from toolnexus.errors import ConfigError
from toolnexus.tools.builtin import loader
from toolnexus.tools.builtin.catalog import BOUND_ELSEWHERE, NAMES, builtin_tools
from toolnexus.tools.builtin.loader import definition, folder, names

DIGESTS = {
    "apply_patch": "de2cda7d1ab3e0b0",
    "bash": "b04cf595eb1fb895",
    "edit": "f6110e0dad9921b1",
    "glob": "ac406b67d93d3ee4",
    "grep": "9f9fc94d2e4ac6e0",
    "question": "0026d750a223de1d",
    "read": "0b4b6d7732983b41",
    "task": "9e857dc5f499dd32",
    "task_stop": "3c5733b5061940cd",
    "task_wait": "ff17ed7c4fe0611f",
    "todowrite": "186f4a26e09d0159",
    "webfetch": "633ee5b525062311",
    "write": "ed5cef4bca725e8c",
}


OPTIONS = {"task_continue": ("task", ["task_id"]), "task_background": ("task", ["background"])}
"""What a host may turn on: the tool that it changes, and the arguments that it adds."""


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property of a schema, at any depth."""
    for name, inner in schema.get("properties", {}).items():
        yield name, inner
        yield from properties(inner)
        yield from properties(inner.get("items", {}))


def objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema and those inside it that describe objects."""
    if schema.get("type") == "object":
        yield schema
    for _, inner in properties(schema):
        yield from objects(inner)
        yield from objects(inner.get("items", {}))


@pytest.mark.parametrize("name", NAMES)
def test_a_definition_is_closed_and_says_what_every_property_means(name: str) -> None:
    """[BT-01] NAME.json holds name, schema and limits, NAME.md the text; a schema admits nothing unnamed."""
    schema: Any = definition(name).input_schema
    jsonschema.Draft202012Validator.check_schema(schema)
    assert all(inner["additionalProperties"] is False for inner in objects(schema))
    for key, inner in properties(schema):
        assert re.fullmatch(r"[a-z]+([A-Z][a-z]*)*", key) or key in ("task_id", "task_ids")
        assert inner["description"].endswith(".")
    assert all(type(limit) is int and limit > 0 for limit in definition(name).limits.values())
    assert 200 < len(definition(name).description) < 2_500


def test_the_arguments_are_those_of_the_contract() -> None:
    """[BT-01] Names of arguments, and which are required, are fixed."""
    told = {
        name: (
            list(definition(name).input_schema["properties"]),
            definition(name).input_schema["required"],
        )
        for name in NAMES
    }
    assert told == {
        "apply_patch": (["patchText"], ["patchText"]),
        "bash": (["command", "workdir", "timeout", "description"], ["command"]),
        "edit": (["path", "oldString", "newString", "replaceAll"], ["path", "oldString", "newString"]),
        "glob": (["pattern", "path", "limit"], ["pattern"]),
        "grep": (["pattern", "path", "include", "limit"], ["pattern"]),
        "question": (["questions"], ["questions"]),
        "read": (["path", "offset", "limit"], ["path"]),
        "task": (["agent", "prompt", "context", "model"], ["agent", "prompt"]),
        "task_stop": (["task_id"], ["task_id"]),
        "task_wait": (["task_ids", "timeout"], []),
        "todowrite": (["todos"], ["todos"]),
        "webfetch": (["url", "format", "timeout"], ["url"]),
        "write": (["path", "content"], ["path", "content"]),
    }
    item = definition("question").input_schema["properties"]["questions"]["items"]
    assert list(item["properties"]) == ["question", "header", "options", "multiple"]
    assert item["required"] == ["question"]


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_adds_arguments_and_text(option: str) -> None:
    """[BT-06] It leaves the rest as it is; what it adds is described like the rest."""
    name, added = OPTIONS[option]
    plain, changed = definition(name), definition(name, (option,))
    schema: Any = changed.input_schema
    jsonschema.Draft202012Validator.check_schema(schema)
    assert list(schema["properties"]) == [*plain.input_schema["properties"], *added]
    assert schema["required"] == plain.input_schema["required"]
    assert all(schema["properties"][key]["description"].endswith(".") for key in added)
    assert changed.description.startswith(plain.description) and len(changed.description) < 3_500
    assert definition(name) == plain
    with pytest.raises(ConfigError, match="builtin 'read'"):
        definition("read", (option,))


def test_schemas_change_only_on_purpose() -> None:
    """[BT-02] The digest of every input schema is pinned."""
    found = {
        name: hashlib.sha256(
            json.dumps(definition(name).input_schema, sort_keys=True, separators=(",", ":")).encode()
        ).hexdigest()[:16]
        for name in NAMES
    }
    assert found == DIGESTS


def test_every_definition_has_an_implementation_and_the_other_way_round() -> None:
    """[BT-03] The folder is the only list: what is defined is bound, what is implemented is defined."""
    modules = [module.name for module in pkgutil.iter_modules(package.__path__)]
    implemented = {
        name
        for name in modules
        if inspect.iscoroutinefunction(
            getattr(importlib.import_module(f"{package.__name__}.{name}"), "execute", None)
        )
    }
    assert implemented.isdisjoint(BOUND_ELSEWHERE)
    there = Path(folder())
    assert implemented | BOUND_ELSEWHERE == set(NAMES) == {path.stem for path in there.glob("*.json")}
    assert {path.stem for path in there.glob("*.md")} == {*NAMES, *OPTIONS, "README"}


def test_the_tools_carry_their_definitions() -> None:
    """[BT-03] `builtin_tools()` gives the tools bound here, sorted, as source `builtin`."""
    tools = builtin_tools()
    assert [tool.name for tool in tools] == sorted(set(NAMES) - BOUND_ELSEWHERE)
    for tool in tools:
        assert tool.source == "builtin"
        assert tool.description == definition(tool.name).description
        assert tool.input_schema == definition(tool.name).input_schema


def test_building_the_tools_loads_no_implementation_and_no_third_party() -> None:
    """[BT-04] An implementation is imported at its first call."""
    program = (
        "import sys\n"
        "from toolnexus.tools.builtin.catalog import builtin_tools\n"
        "builtin_tools()\n"
        "heavy = ('pydantic', 'jsonschema', 'yaml', 'subprocess', 'tempfile')\n"
        "light = ('catalog', 'loader')\n"
        "print([m for m in sys.modules if m.partition('.')[0] in heavy\n"
        "       or m.startswith('toolnexus.tools.builtin.') and m.rpartition('.')[2] not in light])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_builtin_is_an_error_that_names_all() -> None:
    """[BT-05] `definition` raises `ConfigError` for what is not defined."""
    with pytest.raises(ConfigError, match=r"'grpe'; there are: apply_patch, bash, edit, glob"):
        definition("grpe")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ('{"name": "x", "input_schema": {}, "limits": {}}', ""),
        ('{"name": "y", "input_schema": {}, "limits": {}}', "Text."),
        ('{"name": "x", "input_schema": {}}', "Text."),
        ('{"name": "x", "input_schema": {}, "limits": {}, "more": 1}', "Text."),
        ("{", "Text."),
    ],
)
def test_a_definition_that_is_not_whole_is_an_error(
    data: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BT-05] `ConfigError` names the builtin whose files are wrong."""
    (tmp_path / "x.json").write_text(data)
    (tmp_path / "x.md").write_text(text)
    monkeypatch.setattr(loader, "folder", lambda: tmp_path)
    monkeypatch.setattr(loader, "names", lambda: ("x",))
    with pytest.raises(ConfigError, match="builtin 'x'"):
        definition.__wrapped__("x")


def test_names_are_those_of_the_folder() -> None:
    """[BT-05] The names are read from the folder once."""
    assert names() == NAMES
    assert names() is names()
