"""The document of a graph, and building it."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.graph.kernel.worlds import World, a_set, line
from toolnexus.graph import (
    BuildOptions,
    GraphDefinition,
    GraphError,
    NodeType,
    ParallelOptions,
    Registry,
    Role,
    Services,
    build,
    json_schema,
    load,
    validate,
)
from toolnexus.graph.durations import parse_duration

YAML = """
# a comment
name: g
entry: a
nodes:
  - id: a
    type: set
edges:
  - {from: a, to: __end__}
"""


def test_a_document_is_json_or_yaml() -> None:
    """[GR-001] What begins with a brace is JSON, everything else YAML; both give the same graph."""
    yaml = GraphDefinition.from_text(YAML)
    json = GraphDefinition.from_text(
        ' {"name": "g", "entry": "a", "nodes": [{"id": "a", "type": "set"}], '
        '"edges": [{"from": "a", "to": "__end__"}]}'
    )
    assert yaml == json
    assert yaml.spec_version == "g"


WRONG: list[tuple[str, str, int | None]] = [
    ("name: g\nentry: a\nnodes:\n  - id: a\n    type: set\n    extra: 1\n", "unknown field", 6),
    ("name: g\nnode: []\n", "node: unknown field; did you mean 'nodes'?; allowed: name, version", 2),
    ("name: g\nnodes:\n  - {id: a, typ: set}\n", "typ: unknown field; did you mean 'type'?; allowed: id", 3),
    ("name: g\nedges:\n  - {form: a}\n", "form: unknown field; did you mean 'from'?; allowed: from, to", 3),
    ("agents: {a: {engine: {}}}\n", "a deployment document, no graph", None),
    ("name: g\nentry: b\nnodes:\n  - {id: a, type: set}\n", "'b' is no node", 2),
    ("name: g\nname: h\nentry: a\nnodes: [{id: a, type: set}]\n", "twice", None),
    ("name: g\nentry: a\nnodes: [{id: a, type: set}]\nedges:\n  - {from: a, to: zz}\n", "'zz' is neither", 5),
    ("name: g\nentry: a\nnodes: [{id: a}]\n", "needs a type", 3),
    ("name: g\nentry: a\nnodes:\n - {id: a, type: set}\n - {id: a, type: set}\n", "several nodes", 4),
    ("name: [g\n", "line", None),
    ("- a\n", "a graph is a table", None),
    ("", "a graph is a table", None),
    ("a: 1\n---\nb: 2\n", "document", None),
    ("name: 3\nentry: a\nnodes: [{id: a, type: set}]\n", "name: it must be text", 1),
    ("name: g\nentry: a\nnodes: [{id: a, type: set, config: {at: 2020-01-01}}]\n", "date", 3),
]


@pytest.mark.parametrize(("text", "message", "at"), WRONG)
def test_what_is_wrong_is_told_with_its_line(text: str, message: str, at: int | None) -> None:
    """[GR-002] Unknown, double, missing and wrong entries are refused, with the line where they stand."""
    with pytest.raises(GraphError) as caught:
        GraphDefinition.from_text(text)
    assert message in str(caught.value)
    assert caught.value.kind == "validation"
    assert caught.value.http_status == 400
    if at is not None:
        assert at in [issue.line for issue in caught.value.issues]


def test_everything_wrong_is_told_at_once() -> None:
    """[GR-002] One error names every issue of a stage."""
    with pytest.raises(GraphError) as caught:
        GraphDefinition.from_data(
            {"nodes": [{"id": ""}, {"id": "__x", "type": "t"}], "edges": [{"from": "q", "to": "z"}]}
        )
    told = [issue.path for issue in caught.value.issues]
    assert told == [
        "name",
        "entry",
        "nodes[0].id",
        "nodes[0].type",
        "nodes[1].id",
        "edges[0].from",
        "edges[0].to",
    ]
    with pytest.raises(GraphError) as caught:
        World().graph(
            line(
                a_set("a", bogus=1),
                {"id": "b", "type": "nope"},
                {"id": "c", "type": "set", "skip_condition": "1"},
            )
        )
    assert [issue.kind for issue in caught.value.issues] == ["validation", "not_found", "validation"]


def test_plain_data_is_read_as_strictly() -> None:
    """[GR-002] Whichever way a definition is made, and `validate` lists what is wrong with either form."""
    wrong = {"name": "g", "entry": "a", "nodes": [{"id": "a", "type": "set", "more": 1}]}
    for make in (GraphDefinition.from_data, GraphDefinition.model_validate, build):
        with pytest.raises(GraphError, match="unknown field"):
            make(wrong)
    assert [issue.path for issue in validate(wrong)] == ["nodes[0].more"]
    good = GraphDefinition.from_data({**wrong, "nodes": [{"id": "a", "type": "set"}]})
    assert validate(good) == []
    assert GraphDefinition.model_validate(good) is good


def test_a_document_has_a_largest_size() -> None:
    """[GR-001] More than 1 MiB is refused before it is parsed."""
    with pytest.raises(GraphError, match="1 MiB"):
        GraphDefinition.from_text("# " + "x" * (1 << 20) + YAML)


def test_the_schema_of_documents_is_published() -> None:
    """[GR-003] The JSON Schema takes what is right and refuses what is wrong."""
    schema: Any = Draft202012Validator(json_schema())
    good: dict[str, Any] = {"name": "g", "entry": "a", "nodes": [{"id": "a", "type": "set"}]}
    assert schema.is_valid(good)
    assert not schema.is_valid({**good, "metadata": {}})
    assert not schema.is_valid({**good, "nodes": []})
    assert not schema.is_valid({**good, "edges": [{"from": "a"}]})


def test_texts_may_lie_in_files_beside_the_document(tmp_path: Path) -> None:
    """[GR-004] `{file}` and `{embed}` are read when the graph is built, and never from outside the folder."""
    (tmp_path / "graph.yaml").write_text(
        "name: g\nentry: a\nnodes:\n  - {id: a, type: t, config: {text: {file: ../secret.txt}}}\n"
        "  - {id: b, type: t, config: {text: {file: sub/text.txt}}}\n"
        "  - {id: c, type: t, config: {text: {embed: x}}}\n"
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "text.txt").write_text("from a file")

    async def handler(*_: object) -> None: ...

    registry = Registry()
    registry.add(NodeType(name="t", handler=handler, texts=frozenset({"text"})))
    definition = GraphDefinition.from_file(tmp_path / "graph.yaml")
    with pytest.raises(GraphError) as caught:
        build(definition, registry)
    assert ["outside" in str(i) or "embedded" in str(i) for i in caught.value.issues] == [True, True]
    definition = GraphDefinition.from_data(
        {"name": "g", "entry": "b", "nodes": [
            {"id": "b", "type": "t", "config": {"text": {"file": "sub/text.txt"}}},
            {"id": "c", "type": "t", "config": {"text": {"embed": "x"}}},
        ]},
        folder=tmp_path,
    )  # fmt: skip
    graph = build(definition, registry, embedded={"x": "embedded"})
    assert [node.config["text"] for node in graph.nodes.values()] == ["from a file", "embedded"]
    (tmp_path / "link.txt").symlink_to("/etc/hostname")
    with pytest.raises(GraphError, match="outside"):
        build(
            GraphDefinition.from_data(
                {
                    "name": "g",
                    "entry": "b",
                    "nodes": [{"id": "b", "type": "t", "config": {"text": {"file": "link.txt"}}}],
                },
                folder=tmp_path,
            ),
            registry,
        )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("1h30m", 5400), ("1.5s", 1.5), ("250ms", 0.25), ("1us", 1e-6),
     ("2µs", 2e-6), ("3ns", 3e-9), ("-1s", -1)],
)  # fmt: skip
def test_durations_are_written_as_in_go(text: str, seconds: float) -> None:
    """[GR-005] A duration is a sequence of numbers with units, or a bare 0."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "1", "s", "1 s", "1d", "1.5", "--1s", "1s2", "∞s", "."])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """[GR-005] The error says how to write one."""
    with pytest.raises(ValueError, match="units"):
        parse_duration(text)


@pytest.mark.parametrize(
    "options",
    [
        {"max_iterations": -1},
        {"run_end_publish_timeout": 0},
        {"max_node_retries": -1},
        {"timeout": "-1s"},
        {"timeout": "soon"},
        {"parallel": {"max_branches": -1}},
        {"parallel": {"merge_strategy": "any"}},
        {"other": 1},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    """[GR-006] Negative numbers, unknown strategies and unknown keys are told when they are given."""
    with pytest.raises(ValueError):
        BuildOptions(**options)
    assert BuildOptions(timeout="1m", retry_backoff=0.1).timeout == 60
    assert ParallelOptions(branch_timeout="1s").branch_timeout == 1


def test_a_type_has_one_name() -> None:
    """[GR-007] No name is a validation error, a taken one a conflict."""

    async def handler(*_: object) -> None: ...

    registry = Registry.standard()
    with pytest.raises(GraphError) as caught:
        registry.add(NodeType(name="tool", handler=handler))
    assert caught.value.kind == "conflict"
    with pytest.raises(GraphError) as caught:
        registry.add(NodeType(name="", handler=handler))
    assert caught.value.kind == "validation"
    with pytest.raises(GraphError, match="exactly one"):
        Role.var()


def test_what_a_node_needs_must_be_wired() -> None:
    """[GR-008] A service that the definition needs and nobody gave is not found when the graph is built."""
    with pytest.raises(GraphError, match="toolkit") as caught:
        load(line({"id": "t", "type": "tool"}))
    assert caught.value.kind == "not_found"
    assert caught.value.http_status == 404
    load(line({"id": "t", "type": "tool"}), Services(toolkit=[]))


@pytest.mark.parametrize("value", ["${board:x}", 3, ""])
def test_the_key_of_a_role_is_known_before_the_run(value: object) -> None:
    """[GR-009] A config field that names a variable is a plain name."""
    with pytest.raises(GraphError, match=r"results_key"):
        load(line({"id": "t", "type": "tool", "config": {"results_key": value}}), Services(toolkit=[]))


def test_a_graph_is_drawn() -> None:
    """[GR-010] `to_mermaid` shows nodes, conditions and ends, with what is not plain text escaped."""
    document = line(a_set("a"), a_set("b"))
    document["edges"][0]["condition"] = 'x == "<b>"'
    text = World().graph(document).to_mermaid()
    assert text.startswith("flowchart TD\n")
    assert 'n0 -- "x == #quot;#lt;b#gt;#quot;" --> n1' in text
    assert "n1 --> stop" in text
