"""docs/options.md and docs/errors.md against the code."""

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import toolnexus
from toolnexus import Event, ToolnexusError, errors, graph, testing, workflow
from toolnexus.graph import expr, refs, scripts
from toolnexus.models.retry import RetryPolicy
from toolnexus.serving.options import A2AOptions, McpOptions

ROOT = Path(__file__).parents[2]
DOCS = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("options", "errors")}
HEADING = re.compile(r"^### (`[^\n]+`)\n(.*?)(?=^##|\Z)", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\| `([*\w]+)` \| (.*?) \| .+ \|$", re.MULTILINE)
SECTIONS = [(re.findall(r"`([\w.]+)`", names), body) for names, body in HEADING.findall(DOCS["options"])]
ELSEWHERE = {"RetryPolicy": RetryPolicy, "A2AOptions": A2AOptions, "McpOptions": McpOptions}
GIVEN = {
    *("Conversation", "ContextKey", "HttpTool", "Limit", "Message", "Model", "ModelRequest", "ModelResponse"),
    *("OnRequest", "Outcome", "OutputSpec", "Project", "Prompt", "Request", "RunContext", "RunResult"),
    *("Runnable", "SkillIssue", "Store", "Stream", "TextPart", "Tool", "ToolCallPart", "ToolContext"),
    *("ToolResultPart", "ToolSource", "ToolSpec", "Toolkit", "Usage", "assistant", "user", "mcp_report"),
    "MemoryStore",
}
"""What a program gets, implements or names in an annotation, and what has no option."""


def found(name: str) -> Callable[..., Any]:
    """What the page calls `name`."""
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    first, *rest = name.split(".")
    place = next(module for module in (toolnexus, workflow, testing) if hasattr(module, first))
    for part in (first, *rest):
        place = getattr(place, part)
    assert callable(place)
    return place


@pytest.mark.parametrize(("names", "body"), SECTIONS, ids=[names[0] for names, _ in SECTIONS])
def test_every_option_is_on_its_page_with_its_default(names: list[str], body: str) -> None:
    """[DOC-12] Those of the signatures, in their order, and no other."""
    if names == ["Hooks"]:
        assert {row for row, _ in ROW.findall(body)} == {n for n in vars(toolnexus.Hooks) if n[0] != "_"}
        return
    known: dict[str, inspect.Parameter] = {}
    for name in names:
        for parameter in inspect.signature(found(name)).parameters.values():
            star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
            if parameter.name != "self":
                known.setdefault(star + parameter.name, parameter)
    told = dict(ROW.findall(body))
    assert list(told) == list(known)
    for option, default in told.items():
        value = known[option].default
        assert (default == "needed") == (value is inspect.Parameter.empty and "*" not in option), option
        if default.startswith("`"):
            assert ast.literal_eval(default.strip("`")) == value, option


def test_everything_with_options_is_on_the_page() -> None:
    """[DOC-12] What the package exports and a program makes or calls."""
    told = {name for names, _ in SECTIONS for name in names}
    exported: dict[str, Any] = {name: getattr(toolnexus, name) for name in toolnexus.__all__}
    made = {
        name
        for name, value in exported.items()
        if not (isinstance(value, type) and issubclass(value, (Event, ToolnexusError)))
    }
    assert made - GIVEN - told == set()
    assert GIVEN <= made
    assert told & GIVEN == set()


def test_every_error_is_on_the_page() -> None:
    """[DOC-13] Each class of the public modules, once."""
    there = {
        name
        for module in (errors, toolnexus, graph, expr, refs, scripts, testing)
        for name in {*dir(module), *getattr(module, "__all__", ())}
        if isinstance(value := getattr(module, name), type) and issubclass(value, ToolnexusError)
    }
    rows = re.findall(r"^\| `([A-Z]\w+)` \|", DOCS["errors"], re.MULTILINE)
    assert sorted(rows) == sorted(there)
