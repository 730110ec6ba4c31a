"""The globals that scripts always have, in both languages."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.graph.bindings.kit import RUNTIMES, RecordingHost, run, said
from toolnexus import graph

pytestmark = pytest.mark.anyio

READS = {
    "board.getVar('user').name": "ada",
    "board.getVar('nothing')": None,
    "board.hasVar('user')": True,
    "board.hasVar('nothing')": False,
    "board.getVars().n": 7,
    "board.resolve('${board:n}')": 7,
    "board.resolve('${board:nothing:3}')": 3,
    "board.resolveString('${board:n}')": "7",
    "board.resolveString('${board:user}')": '{"name":"ada"}',
    "board.channelLen(board.MAIN_CHANNEL)": 2,
    "board.channelLen('other')": 0,
    "board.lastMessage(board.MAIN_CHANNEL).role": "assistant",
    "board.lastMessage('other')": None,
    "board.MAIN_CHANNEL": "__main_channel",
    "expr.eval('n > 0.5 && !done', {n = 0.8, done = false})": True,
    "expr.eval('1 + 2')": 3,
    "expr.eval('missing')": None,
    "run.get_run_id()": "run-1",
    "run.get_agent_id()": "agent-1",
    "run.get_context_id()": "chat-1",
    "run.get_task_id()": "",
    "run.get_parent_run_id()": "",
    "node.id()": "s",
    "node.type()": "script",
    "parallel.cancelNode('s', 'why')": False,
    "host.checkInterrupt()": None,
}
"""In a notation that both languages share but for tables."""


def of(runtime: str, expression: str) -> str:
    if runtime == "lua":
        return expression
    return expression.replace("n = 0.8, done = false", "n: 0.8, done: false")


def filled() -> graph.Board:
    chat = [said("user", "a"), said("assistant", "b")]
    return graph.Board({"user": {"name": "ada"}, "n": 7}, {graph.MAIN_CHANNEL: chat})


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_scripts_read_the_board_the_run_and_the_node(scripts: Mapping[str, Any], runtime: str) -> None:
    """[GR-250] Reads of `board`, `expr`, `run`, `node`, `parallel` and `host`, in JavaScript and Lua."""
    lines = [
        f"{'local' if runtime == 'lua' else 'var'} v{n} = {of(runtime, e)}; board.setVar('r{n}', v{n});"
        for n, e in enumerate(READS)
    ]
    board = await run(scripts, runtime, "\n".join(lines), filled(), host=RecordingHost())
    assert {e: board[f"r{n}"] for n, e in enumerate(READS)} == READS


MAKE = {
    "js": "var one = {role: 'user', content: {parts: [{type: 'text', text: 'go'}]}};"
    " var bad = {role: 'boss'};",
    "lua": "local one = {role = 'user', content = {parts = {{type = 'text', text = 'go'}}}}"
    " local bad = {role = 'boss'};",
}
WRITES = {
    "js": {
        "board.appendChannel(board.MAIN_CHANNEL, one)": ["a", "b", "go"],
        "board.appendChannel(board.MAIN_CHANNEL, [one, one])": ["a", "b", "go", "go"],
        "board.appendChannel(board.MAIN_CHANNEL, [])": ["a", "b"],
        "board.setChannel(board.MAIN_CHANNEL, [one])": ["go"],
        "board.setChannel(board.MAIN_CHANNEL, [])": [],
        "board.setChannel(board.MAIN_CHANNEL, board.channelTail(board.MAIN_CHANNEL, 1))": ["b"],
        "board.appendChannel('other', board.channel(board.MAIN_CHANNEL))": ["a", "b"],
        "try { board.appendChannel('__main_channel', [one, bad]) } catch (e) { board.setVar('e', e.kind) }": [
            "a",
            "b",
        ],
    },
    "lua": {
        "board.appendChannel(board.MAIN_CHANNEL, one)": ["a", "b", "go"],
        "board.appendChannel(board.MAIN_CHANNEL, {one, one})": ["a", "b", "go", "go"],
        "board.appendChannel(board.MAIN_CHANNEL, {})": ["a", "b"],
        "board.setChannel(board.MAIN_CHANNEL, {one})": ["go"],
        "board.setChannel(board.MAIN_CHANNEL, {})": [],
        "board.setChannel(board.MAIN_CHANNEL, board.channelTail(board.MAIN_CHANNEL, 1))": ["b"],
        "board.appendChannel('other', board.channel(board.MAIN_CHANNEL))": ["a", "b"],
        "local err = board.appendChannel(board.MAIN_CHANNEL, {one, bad}) board.setVar('e', err.kind)": [
            "a",
            "b",
        ],
    },
}


@pytest.mark.parametrize(("runtime", "line"), [(r, line) for r in RUNTIMES for line in WRITES[r]])
async def test_scripts_write_channels_all_or_nothing(
    scripts: Mapping[str, Any], runtime: str, line: str
) -> None:
    """[GR-251] A batch is checked before any of it lands; an empty one is none, an empty list clears."""
    board = await run(scripts, runtime, MAKE[runtime] + line, filled())
    assert [message.text for message in board.main] == WRITES[runtime][line]
    assert board.get("e", "validation") == "validation"
    if "'other'" in line:
        assert [message.to_wire() for message in board.channel("other")] == [m.to_wire() for m in board.main]


async def test_variables_are_set_deleted_and_detached(scripts: Mapping[str, Any]) -> None:
    """[GR-252] What a script reads is its own: changing it changes no board, in both languages."""
    js = "var u = board.getVar('user'); u.name = 'bob'; board.deleteVar('n'); board.setVar('l', [u, null])"
    board = await run(scripts, "js", js, filled())
    assert board.vars() == {"user": {"name": "ada"}, "l": [{"name": "bob"}, None]}
    lua = "local m = board.channel(board.MAIN_CHANNEL) m[1].role = 'tool' board.deleteVar('n')"
    board = await run(scripts, "lua", lua, filled())
    assert [message.role for message in board.main] == ["user", "assistant"]
    assert "n" not in board


@pytest.mark.parametrize(
    ("runtime", "source", "kind"),
    [
        ("js", "board.resolve('${board:nope}'); board.setVar('after', 1)", "validation"),
        ("js", "host.drainSteer(); board.setVar('after', 1)", "not_available"),
        ("js", "board.getVar(); board.setVar('after', 1)", "validation"),
        ("js", "board.setVar('', 1); board.setVar('after', 1)", "validation"),
        ("js", "board.channelTail('x', -1); board.setVar('after', 1)", "validation"),
        ("js", "expr.eval('1 +'); board.setVar('after', 1)", "validation"),
        ("js", "host.publish('agent.run.other.x', {}); board.setVar('after', 1)", "validation"),
        ("js", "host.askUser({prompt: 'x'}); board.setVar('after', 1)", "validation"),
        ("js", "host.reportUsage({input: -1}); board.setVar('after', 1)", "validation"),
        ("lua", "local v, err = board.resolve('${board:nope}') error(err)", "validation"),
        ("lua", "board.getVar('')", "validation"),
        ("lua", "local _, err = host.drainSteer() error(err)", "not_available"),
        ("lua", "board.appendChannel(board.MAIN_CHANNEL, board.resolve('x'))", "validation"),
        ("js", "throw new Error('oops')", "internal"),
        ("lua", "error('oops')", "internal"),
        ("js", "nosuch.call()", "internal"),
    ],
)
async def test_what_a_script_does_not_catch_keeps_its_kind(
    scripts: Mapping[str, Any], runtime: str, source: str, kind: str
) -> None:
    """[GR-253] What a bridge fails with ends the node with its kind; an error of the script is internal."""
    board = graph.Board()
    with pytest.raises(graph.GraphRunError) as failed:
        await run(scripts, runtime, source, board, host=RecordingHost())
    assert failed.value.kind == kind
    assert "after" not in board


@pytest.mark.parametrize(
    ("runtime", "source"),
    [
        ("js", "try { board.resolve('${board:nope}') } catch (e) { board.setVar('kind', e.kind) }"),
        ("lua", "local v, err = board.resolve('${board:nope}') board.setVar('kind', err.kind)"),
        ("lua", "local ok, err = pcall(board.getVar, '') board.setVar('kind', err.kind)"),
    ],
)
async def test_what_a_script_catches_lets_it_go_on(
    scripts: Mapping[str, Any], runtime: str, source: str
) -> None:
    """[GR-254] A caught failure has its kind and is over."""
    board = await run(scripts, runtime, source)
    assert board["kind"] == "validation"


async def test_the_second_value_of_a_call_in_lua_is_not_lost(scripts: Mapping[str, Any]) -> None:
    """[GR-255] Too many arguments end a Lua script; in JavaScript they do no harm."""
    host = RecordingHost(steer=[said("user", "x")])
    with pytest.raises(graph.GraphRunError, match="expected 2 arguments, got 3") as failed:
        await run(scripts, "lua", "board.appendChannel('c', host.drainSteer())", host=host)
    assert failed.value.kind == "validation"
    board = await run(scripts, "js", "board.setVar('n', ['a', 'b'].map(board.getVar).length)")
    assert board["n"] == 2
