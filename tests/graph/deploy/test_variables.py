"""Variables in settings, and what must not be shown of them."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.graph.deploy.documents import chain, changed, refused, registry, write
from toolnexus.graph import NodeType, ResourceInput, ResourceRegistry, deploy

SECRET = "hunter2-hunter2"


def seeing(seen: list[Any]) -> ResourceRegistry:
    """A registry with `graph.NodeType/n`, which shows its settings."""
    made = registry()

    async def nothing(ctx: Any, board: Any, config: Any) -> None: ...

    def node_type(given: ResourceInput) -> NodeType:
        seen.append(given.settings)
        return NodeType(name="n", handler=nothing)

    made.register("graph.NodeType", "n", node_type, settings=dict)
    return made


def settings(given: dict[str, Any], folder: Path | None = None) -> Any:
    """What the factory gets."""
    seen: list[Any] = []
    source = changed(chain("n"), "resources", "n", "settings", to=given)
    deploy(source, registry=seeing(seen), folder=folder)
    return seen[0]


def test_variables_of_the_environment_and_the_places_are_filled_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[GR-507] `${NAME}`, `${env:NAME}`, a default, `${base}` and `${home}`, anywhere in settings."""
    monkeypatch.setenv("WORD", "hi")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("UNSET", raising=False)
    given = {
        "a": "${WORD}",
        "b": ["${env:WORD} there", {"c": "${UNSET:-de:fault}${EMPTY:-d}"}],
        "d": "${base}/x",
        "e": "${home}",
        "f": "[${EMPTY}]",
        "g": 3,
    }
    assert settings(given, tmp_path) == {
        "a": "hi",
        "b": ["hi there", {"c": "de:faultd"}],
        "d": f"{tmp_path}/x",
        "e": str(Path.home()),
        "f": "[]",
        "g": 3,
    }


def test_references_to_the_board_and_escaped_texts_are_left_to_whoever_reads_them() -> None:
    """[GR-507] `${board:…}` is the graph's, also with a backslash; `\\${X}` is the text `${X}`."""
    assert settings({"a": "${board:x:1}", "b": "\\${board:x}", "c": "\\${HOME}", "d": "$HOME {x}"}) == {
        "a": "${board:x:1}",
        "b": "\\${board:x}",
        "c": "${HOME}",
        "d": "$HOME {x}",
    }


def test_nothing_in_a_source_is_a_variable_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """[GR-508] Under `source` stands code, and `${x}` is a part of that."""
    monkeypatch.setenv("x", "no")
    code = "board.setVar('y', `${x}`)"
    assert settings({"source": code, "nodes": [{"config": {"source": code}}]})["nodes"][0] == {
        "config": {"source": code}
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("${UNSET_ONE}", "needs the environment variable 'UNSET_ONE', which is not set"),
        ("x ${env:UNSET_ONE} y", "or write ${UNSET_ONE:-default}"),
        ("${a b}", "stands for nothing; write ${NAME}"),
        ("${secret:x}", "stands for nothing"),
        ("${}", "stands for nothing"),
        ("${base}", "there is no folder here"),
    ],
)
def test_a_variable_that_stands_for_nothing_names_the_key(
    text: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[GR-507] The error says where it stands and what to write."""
    monkeypatch.delenv("UNSET_ONE", raising=False)
    source = changed(chain("n"), "resources", "n", "settings", to={"list": [{"key": text}]})
    (issue,) = refused(source, seeing([])).issues
    assert issue.path == "resources.n.settings.list[0].key"
    assert says in issue.message


def test_what_a_variable_holds_is_in_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """[GR-507] Neither a factory's error nor the check of settings shows it."""
    monkeypatch.setenv("KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    made = registry()

    def loud(given: ResourceInput) -> Any:
        raise ValueError(f"wrong: {given.settings}")

    made.register("graph.NodeType", "n", loud, settings=dict)
    source = chain("n")
    source["resources"]["n"]["settings"] = {"key": "${KEY}"}
    source["resources"]["js"] = {
        "kind": "agent.ScriptRuntime",
        "impl": "js",
        "settings": {"pool_size": "${KEY}", "max_exec_time": "${KEY}"},
    }
    text = str(refused(source, made)) + caplog.text
    assert SECRET not in text
    del source["resources"]["js"]
    error = refused(source, made)
    assert "wrong: {'key': '[redacted]'}" in str(error)
    assert SECRET not in repr(error) + str(error.issues)
    path = write(
        tmp_path, "agents: {a: {engine: {kind: agent.Engine, impl: graph, settings: {graph: '${KEY}'}}}}"
    )
    assert SECRET not in str(refused(path, made))
