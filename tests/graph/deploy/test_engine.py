"""`agent.Engine/graph`: where the graph is written, what it needs, and every setting of it."""

import asyncio
import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from tests.graph.deploy.documents import GREET, Handler, chain, changed, refused, registry, run, write
from toolnexus import RunResult
from toolnexus.graph import Board, ErrorKind, GraphRunError, NodeContext, deploy

pytestmark = pytest.mark.anyio

GRAPH = """
name: greeter
entry: hello
nodes:
  - id: hello
    type: greet
    config: {name: "${board:user}"}
edges: [{from: hello, to: __end__}]
"""
SETTINGS = ("agents", "asst", "engine", "settings")


def with_graph(tmp_path: Path, graph: str) -> Path:
    """The greeting document with the graph written another way."""
    head = GREET.partition("        graph:")[0]
    return write(tmp_path, f"{head}        graph: {graph}\n")


@pytest.mark.parametrize("graph", ["{file: ./graphs/g.yaml}", "{embed: greeter}", json.dumps(GRAPH)])
async def test_a_graph_may_be_a_file_an_embedded_text_or_a_text(tmp_path: Path, graph: str) -> None:
    """[GR-510] All of them are the same graph; a text is not searched for variables of the document."""
    write(tmp_path, GRAPH, "graphs/g.yaml")
    path = with_graph(tmp_path, graph)
    async with deploy(path, registry=registry(), embedded={"greeter": GRAPH}) as deployment:
        assert (await run(deployment, {"user": "ada"})).output["greeting"] == "hi ada"


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        ("{file: ../g.yaml}", "lies outside the folder"),
        ("{file: link.yaml}", "lies outside the folder"),
        ("{file: none.yaml}", "cannot be read: No such file"),
        ("{embed: other}", "no text 'other' is embedded; embedded: greeter"),
        ("{file: a, embed: b}", "write text, {file: path} or {embed: name}"),
        ("[1]", "write the graph itself, as a table or as text"),
        ("{file: bad.yaml}", "bad.yaml: line 4: nodes[0].typ: unknown field"),
        ("{file: odd.yaml}", "odd.yaml: line 4: nodes[0].type: no node type 'gret' is registered"),
        ("{name: g, entry: hello, nodes: [{id: hello, typ: greet}]}", "nodes[0].typ: unknown field"),
        ('"name: [1"', "the text: "),
    ],
)
def test_a_graph_that_is_wrong_is_told_with_its_own_place(tmp_path: Path, graph: str, says: str) -> None:
    """[GR-510] The error has the key of the document, and in a file the line of that."""
    base = tmp_path / "base"
    write(tmp_path, GRAPH, "g.yaml")
    write(base, "name: g\nentry: a\nnodes:\n  - {id: a, typ: greet}\n", "bad.yaml")
    write(base, "name: g\nentry: a\nnodes:\n  - {id: a, type: gret}\n", "odd.yaml")
    (base / "link.yaml").symlink_to(tmp_path / "g.yaml")
    error = refused(with_graph(base, graph), embedded={"greeter": GRAPH})
    assert all(issue.path.startswith("agents.asst.engine.settings.graph") for issue in error.issues)
    assert all(issue.line == 14 for issue in error.issues)
    assert says in str(error)


@pytest.mark.parametrize("text", ["source", "code.js"])
async def test_the_files_of_nodes_lie_in_the_folder_of_the_deployment(tmp_path: Path, text: str) -> None:
    """[GR-509] Also those that a graph in a folder of its own names."""
    graph = """
    name: g
    entry: run
    nodes:
      - {id: run, type: script, config: {runtime: js, source: {file: ./nodes/code.js}}}
    edges: [{from: run, to: __end__}]
    """
    write(tmp_path, graph, "graphs/g.yaml")
    write(tmp_path, "board.setVar('x', 7)", "nodes/code.js")
    path = write(
        tmp_path,
        """
        resources: {js: {kind: agent.ScriptRuntime, impl: js, settings: {pool_size: 1}}}
        agents:
          asst:
            engine:
              kind: agent.Engine
              impl: graph
              deps: {script_runtime: js}
              settings: {graph: {file: graphs/g.yaml}}
        """,
    )
    if text == "source":
        async with deploy(path) as deployment:
            assert (await run(deployment, {})).output == {"x": 7}
        return
    write(tmp_path, graph.replace("./nodes/code.js", "../code.js"), "graphs/g.yaml")
    assert "the file '../code.js' lies outside the folder" in str(refused(path))


@pytest.mark.parametrize(
    ("node", "dep", "kind"),
    [
        ({"type": "tool"}, "tools", "tool.Assembly"),
        (
            {"type": "script", "config": {"runtime": "js", "source": "1"}},
            "script_runtime",
            "agent.ScriptRuntime",
        ),
    ],
)
def test_what_the_nodes_need_must_be_wired(node: dict[str, Any], dep: str, kind: str) -> None:
    """[GR-511] The error names the dep, the nodes and the kind of resource."""
    graph = {"name": "g", "entry": "a", "nodes": [{"id": "a", **node}, {"id": "b", **node}]}
    (issue,) = refused(changed(chain("greeting"), *SETTINGS, "graph", to=graph)).issues
    assert issue.path == "agents.asst.engine.deps"
    assert (
        issue.message == f"the dep {dep!r} is missing, which nodes 'a', 'b' need: a resource of kind {kind}"
    )
    assert issue.kind is ErrorKind.NOT_FOUND


async def built(handler: Handler, build: dict[str, Any], *types: str, **options: Any) -> RunResult:
    """A run of the agent with these build settings, nodes being of type `n`."""
    document = changed(chain(*(types or ("n",))), *SETTINGS, "build", to=build)
    graph = document["agents"]["asst"]["engine"]["settings"]["graph"]
    graph["edges"] += options.pop("edges", [])
    async with deploy(document, registry=registry(n=handler)) as deployment, asyncio.timeout(10):
        return await run(deployment, {})


async def test_max_iterations_and_timeout_bound_a_run() -> None:
    """[GR-512] Each is a limit that the result names."""

    async def quick(ctx: NodeContext, board: Board, config: Any) -> None: ...
    async def slow(ctx: NodeContext, board: Board, config: Any) -> None:
        await asyncio.Event().wait()

    again = [{"from": "n0", "to": "n0"}]
    result = await built(quick, {"max_iterations": 3}, edges=again)
    assert (result.status, result.limit) == ("incomplete", "max_iterations")
    assert result.limits_hit[0].value == 3
    result = await built(slow, {"timeout": "20ms"})
    assert (result.status, result.limit) == ("incomplete", "seconds")


async def test_retries_and_their_pauses_are_settings() -> None:
    """[GR-512] `max_node_retries` and `retry_backoff`, a duration."""
    attempts: list[float] = []

    async def fails(ctx: NodeContext, board: Board, config: Any) -> None:
        attempts.append(time.monotonic())
        if len(attempts) < 3:
            raise GraphRunError("not yet")

    result = await built(fails, {"max_node_retries": 2, "retry_backoff": "10ms"})
    assert result.status == "done"
    assert attempts[2] - attempts[0] >= 0.03


@pytest.mark.parametrize(
    ("build", "says"),
    [
        ({"timeout": 3}, "write it with a unit"),
        ({"run_end_publish_timeout": "0s"}, "greater than 0"),
        ({"run_end_publish_timeout": "1 s"}, "is no duration"),
        ({"max_iterations": -1}, "greater than or equal to 0"),
        ({"max_iterations": "3"}, "a whole number"),
        ({"max_node_retries": 1.5}, "a whole number"),
        ({"parallel": {"merge_strategy": "mine"}}, "first_write_wins"),
        ({"parallel": {"branches": 1}}, "unknown key 'branches'"),
        ({"retries": 1}, "unknown key 'retries'"),
    ],
)
def test_a_build_setting_that_is_wrong_is_told_at_its_key(build: dict[str, Any], says: str) -> None:
    """[GR-512] A duration is a text with units; numbers are numbers; other keys are none."""
    error = refused(changed(chain("greeting"), *SETTINGS, "build", to=build))
    assert all(i.path.startswith("agents.asst.engine.settings.build.") for i in error.issues)
    assert any(says in i.message for i in error.issues), error


def fork(build: dict[str, Any]) -> dict[str, Any]:
    """A document in which `n0` leads to `n1` and `n2` at once."""
    document = changed(chain("n", "m"), *SETTINGS, "build", to={"parallel": {"enabled": True, **build}})
    graph = document["agents"]["asst"]["engine"]["settings"]["graph"]
    graph["nodes"].append({"id": "n2", "type": "m"})
    graph["edges"] = [{"from": "n0", "to": "n1"}, {"from": "n0", "to": "n2"}]
    return document


async def parallel(build: dict[str, Any], handler: Handler) -> RunResult:
    async def start(ctx: NodeContext, board: Board, config: Any) -> None: ...

    async with deploy(fork(build), registry=registry(n=start, m=handler)) as deployment, asyncio.timeout(10):
        return await run(deployment, {})


async def test_the_settings_of_parallel_waves_shape_them() -> None:
    """[GR-512] Which branch wins, how many run at once, how many there may be, and for how long."""
    most, running = 0, 0

    async def branch(ctx: NodeContext, board: Board, config: Any) -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        board["who"] = ctx.node_id
        await asyncio.sleep(0.005)
        running -= 1

    assert (await parallel({}, branch)).output == {"who": "n1"}
    assert most == 2
    most = 0
    result = await parallel({"merge_strategy": "last_write_wins", "max_concurrency": 1}, branch)
    assert (result.output, most) == ({"who": "n2"}, 1)
    result = await parallel({"max_branches": 1}, branch)
    assert result.status == "incomplete"

    async def hangs(ctx: NodeContext, board: Board, config: Any) -> None:
        await asyncio.Event().wait()

    with pytest.raises(GraphRunError, match="n1"):
        await parallel({"branch_timeout": "20ms"}, hangs)
    started, stopped = asyncio.Event(), list[str]()

    async def one_fails(ctx: NodeContext, board: Board, config: Any) -> None:
        if ctx.node_id == "n1":
            await started.wait()
            raise GraphRunError("broken", kind="validation")
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(ctx.node_id)
            raise

    with pytest.raises(GraphRunError, match="broken"):
        await parallel({"on_error": "cancel_siblings"}, one_fails)
    assert stopped == ["n2"]


async def test_a_checkpoint_can_be_required_and_the_last_event_has_its_time(tmp_path: Path) -> None:
    """[GR-512] `checkpoint: required` fails a run that cannot be kept; the best effort only says so."""

    async def node(ctx: NodeContext, board: Board, config: Any) -> None:
        board["x"] = 1

    (tmp_path / "blocked").write_text("a file, not a folder")
    for build, fails in (({}, False), ({"checkpoint": "required"}, True)):
        document = changed(chain("n"), *SETTINGS, "build", to=build)
        document["resources"]["events"] = {"kind": "event.Bus", "impl": "memory"}
        document["resources"]["cps"] = {
            "kind": "checkpoint.Store",
            "impl": "files",
            "settings": {"path": "blocked"},
        }
        document["runtime"] = {"event_bus": "events", "checkpoint_store": "cps"}
        async with deploy(document, registry=registry(n=node), folder=tmp_path) as deployment:
            if fails:
                with pytest.raises(GraphRunError, match="cannot be written"):
                    await run(deployment, {})
            else:
                assert (await run(deployment, {})).output == {"x": 1}


def test_findings_about_the_shape_are_logged_and_fail_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """[GR-510] A node without a way out is told as a graph build warning."""
    caplog.set_level(logging.WARNING, "toolnexus.graph")
    document = chain("greeting")
    graph = document["agents"]["asst"]["engine"]["settings"]["graph"]
    graph["nodes"][0].update(type="greet", config={"name": "x"})
    document["resources"]["greeting"]["settings"] = {"word": "x"}
    del graph["edges"]
    deploy(document, registry=registry())
    assert "graph build warning: graph 'chain': dead_end_node" in caplog.text


async def test_agents_of_one_document_are_targets_of_each_other() -> None:
    """[GR-528] An `agent` node names another agent of the document."""

    async def answers(ctx: NodeContext, board: Board, config: Any) -> None:
        board["answer"] = 42

    document = chain("n")
    config: dict[str, Any] = {"agent": "asst", "input": {}, "output_key": "got"}
    document["agents"]["boss"] = {
        "engine": {
            "kind": "agent.Engine",
            "impl": "graph",
            "settings": {
                "graph": {
                    "name": "boss",
                    "entry": "ask",
                    "nodes": [{"id": "ask", "type": "agent", "config": config}],
                    "edges": [{"from": "ask", "to": "__end__"}],
                }
            },
        }
    }
    async with deploy(document, registry=registry(n=answers)) as deployment:
        result = await run(deployment, {}, "boss")
    assert result.output == {"got": {"answer": 42}}
    assert [child.agent for child in result.sub_agents] == ["asst"]
