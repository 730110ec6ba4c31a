"""The node type `script`, and types that are scripts."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.graph.bindings.kit import built, run
from toolnexus import graph
from toolnexus.graph.scripts import JsRuntime, LuaRuntime

pytestmark = pytest.mark.anyio


def document(**config: Any) -> graph.GraphDefinition:
    node = {"id": "s", "type": "script", "config": config}
    return graph.GraphDefinition.from_data({"name": "g", "entry": "s", "nodes": [node]})


@pytest.mark.parametrize(
    ("config", "kind", "told"),
    [
        ({"runtime": "js", "source": ""}, "validation", "config.source: a script needs a source"),
        ({"runtime": "js", "source": " \n"}, "validation", "config.source: a script needs a source"),
        ({"runtime": "js"}, "validation", "config.source: a script needs a source"),
        ({"source": "1"}, "validation", "config.runtime: a script needs the name of its runtime"),
        ({"runtime": "py", "source": "1"}, "not_available", "'py' is not that of the graph, 'js'"),
        ({"runtime": "js", "source": "1", "colour": "red"}, "validation", "unknown field 'colour'"),
        ({"runtime": "js", "source": {"url": "x"}}, "validation", "{file: path} or {embed: name}"),
    ],
)
def test_a_wrong_script_is_told_when_the_graph_is_built(config: Any, kind: str, told: str) -> None:
    """[GR-270] Runtime, source and fields of a script are checked before anything runs."""
    services = graph.Services(scripts={"js": JsRuntime()})
    with pytest.raises(graph.GraphError) as wrong:
        graph.build(document(**config), graph.Registry.standard(services))
    assert wrong.value.kind == kind
    assert told in str(wrong.value)


def test_a_graph_with_scripts_needs_the_runtime() -> None:
    """[GR-271] Without the runtime of its name a graph cannot be built."""
    services = graph.Services(scripts={"lua": LuaRuntime()})
    with pytest.raises(graph.GraphError, match="needs the script runtime 'js'") as wrong:
        graph.build(document(runtime="js", source="1"), graph.Registry.standard(services))
    assert wrong.value.kind == "not_found"


async def test_source_is_taken_as_it_is_and_config_is_resolved(scripts: Mapping[str, Any]) -> None:
    """[GR-272] References in `config` are resolved, in `source` they are text of the script."""
    source = "board.setVar('out', [config.who, `${board.getVar('n')}`, board.resolve('${board:n}')])"
    board = await run(
        scripts, "js", source, graph.Board({"user": "ada", "n": 7}), config={"who": "${board:user}"}
    )
    assert board["out"] == ["ada", "7", 7]


async def test_a_script_may_return_at_its_top_and_lie_in_a_file(
    scripts: Mapping[str, Any], tmp_path: Any
) -> None:
    """[GR-273] `source: {file: …}` is read beside the graph; errors name the script and the line."""
    (tmp_path / "s.js").write_text("if (board.hasVar('x')) return 1;\n\nthrow new Error('no x')")
    node = {"runtime": "js", "source": {"file": "s.js"}, "name": "checker"}
    data = {"name": "g", "entry": "s", "nodes": [{"id": "s", "type": "script", "config": node}]}
    registry = graph.Registry.standard(graph.Services(scripts=scripts))
    made = graph.build(graph.GraphDefinition.from_data(data, folder=tmp_path), registry)
    await made.run(graph.Board({"x": 1}))
    with pytest.raises(graph.GraphRunError, match="checker:3: Error: no x"):
        await made.run()


@pytest.mark.parametrize(
    ("runtime", "source", "kind", "told"),
    [
        ("js", "signal.error('boom'); board.setVar('after', 1)", "internal", "boom"),
        (
            "js",
            "try { signal.error({kind: 'policy_denied', message: 'no'}) } catch (e) {}",
            "policy_denied",
            "no",
        ),
        ("lua", "pcall(signal.error, {kind = 'not_found', message = 'no'})", "not_found", "no"),
        ("js", "signal.error({kind: 'odd', message: 'm', detail: {a: 1}})", "internal", 'm ({"a":1})'),
        ("js", "signal.error()", "internal", "s: signal.error"),
        ("js", "signal.done(); board.setVar('after', 1)", None, ""),
        ("lua", "signal.done() board.setVar('after', 1)", None, ""),
        (
            "js",
            "signal.interrupt({kind: 'user_input', message: 'sure?'})",
            "interrupted",
            "user_input (sure?)",
        ),
        ("lua", "signal.interrupt('later')", "interrupted", "custom (later)"),
    ],
)
async def test_signals_end_the_script_and_say_how_the_node_ends(
    scripts: Mapping[str, Any], runtime: str, source: str, kind: str | None, told: str
) -> None:
    """[GR-274] `signal` stops a script at once; an error or an interrupt of it is that of the node."""
    board = graph.Board()
    if kind is None:
        await run(scripts, runtime, source, board)
    else:
        with pytest.raises(graph.GraphRunError) as ended:
            await run(scripts, runtime, source, board)
        assert ended.value.kind == kind
        assert told in str(ended.value)
        assert ended.value.node_id == "s"
    assert "after" not in board


async def test_scripts_run_scripts_with_the_same_globals(scripts: Mapping[str, Any]) -> None:
    """[GR-275] `runtime.execScript` gives the signal; an error signal of the script in it is thrown."""
    source = """
      runtime.execScript("board.setVar('inner', config.n + node.id())", {n: 1});
      try { runtime.execScript("signal.error({kind: 'not_found', message: 'x'})") }
      catch (e) { board.setVar('kind', e.kind) }
    """
    board = await run(scripts, "js", source)
    assert board.vars() == {"inner": "1s", "kind": "not_found"}
    lua = "local s, err = runtime.execScript('signal.done()') board.setVar('type', s.type)"
    assert (await run(scripts, "lua", lua))["type"] == "done"


async def test_a_runaway_script_is_cut_off_as_timeout() -> None:
    """[GR-276] A script that runs longer than `max_exec_time` fails its node as timeout."""
    runtime = JsRuntime(pool_size=1, max_exec_time="50ms")
    try:
        with pytest.raises(graph.GraphRunError) as late:
            await run({"js": runtime}, "js", "try { while (true) {} } catch (e) {}")
    finally:
        await runtime.close()
    assert (late.value.kind, late.value.http_status) == ("timeout", 504)


async def test_a_type_that_is_a_script(scripts: Mapping[str, Any]) -> None:
    """[GR-277] `script_type`: the config of a node is the global `config`, declared writes are enforced."""
    registry = graph.Registry.standard(graph.Services(scripts=scripts))
    writes = [graph.Role.var("greeting", required=True)]
    registry.script_type("greet", "board.setVar('greeting', 'hi ' + config.name)", writes=writes)
    registry.script_type("forget", "1", writes=writes)
    registry.script_type("lua_greet", "board.setVar('greeting', 'yo ' .. config.name)", runtime="lua")

    async def board_of(type: str) -> graph.Board:
        node = {"id": "h", "type": type, "config": {"name": "${board:user}", "any": [1]}}
        data = {"name": "g", "entry": "h", "nodes": [node]}
        made = graph.build(graph.GraphDefinition.from_data(data), registry)
        return await made.run(graph.Board({"user": "ada"}))

    assert (await board_of("greet"))["greeting"] == "hi ada"
    assert (await board_of("lua_greet"))["greeting"] == "yo ada"
    with pytest.raises(graph.GraphRunError, match="did not write") as failed:
        await board_of("forget")
    assert failed.value.kind == "validation"


def test_a_type_that_is_a_script_is_checked_when_it_is_registered(scripts: Mapping[str, Any]) -> None:
    """[GR-278] Its source may not be empty, its name not taken, and its runtime must be wired."""
    registry = graph.Registry.standard(graph.Services(scripts={"js": scripts["js"]}))
    with pytest.raises(graph.GraphError, match="not empty"):
        registry.script_type("a", "  ")
    with pytest.raises(graph.GraphError) as taken:
        registry.script_type("script", "1")
    assert taken.value.kind == "conflict"
    registry.script_type("b", "x = 1", runtime="lua")
    data = {"name": "g", "entry": "h", "nodes": [{"id": "h", "type": "b"}]}
    with pytest.raises(graph.GraphError, match="script runtime 'lua'") as missing:
        graph.build(graph.GraphDefinition.from_data(data), registry)
    assert missing.value.kind == "not_found"


async def test_a_failed_script_is_tried_again_on_the_board_as_it_was(scripts: Mapping[str, Any]) -> None:
    """[GR-279] A retry of the node begins with the board of before the script."""
    made = built(scripts, "js", "board.setVar('n', board.getVar('n') + 1); throw new Error('x')")
    made.options = graph.BuildOptions(max_node_retries=2, retry_backoff=0)
    board = graph.Board({"n": 0})
    with pytest.raises(graph.GraphRunError):
        await made.run(board)
    assert board["n"] == 1
