"""`host` in scripts: events, usage, questions, interrupts, messages for a run in flight."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.graph.bindings.kit import RUNTIMES, RecordingHost, run, said
from toolnexus import graph

pytestmark = pytest.mark.anyio

TEXT = {"type": "text", "text": "ok"}
CALL = {"id": "c1", "name": "search", "arguments": '{"q": "go"}'}
EMITTED = {
    "host.emit('token', 'hi')": {"type": "part", "part": {"type": "text", "text": "hi"}},
    "host.emit('token', {a: 1})": {"type": "part", "part": {"type": "text", "text": '{"a":1}'}},
    "host.emit('tool_call', {id: 'c1', name: 'search', arguments: {q: 'go'}})": {
        "type": "part",
        "part": {"type": "tool_call", "call": CALL},
    },
    """host.emit('tool_call', '{"id": "c1", "name": "search"}')""": {
        "type": "part",
        "part": {"type": "tool_call", "call": {**CALL, "arguments": "{}"}},
    },
    "host.emit('tool_result', {tool_call_id: 'c1', parts: [{type: 'text', text: 'ok'}]})": {
        "type": "part",
        "part": {
            "type": "tool_result",
            "result": {"call_id": "c1", "content": {"parts": [TEXT]}, "is_error": False},
        },
    },
    "host.emit('part', {type: 'reasoning', text: 'hm'})": {
        "type": "part",
        "part": {"type": "reasoning", "text": "hm", "origin": ""},
    },
    "host.emit('finish', {finish_reason: 'completed', request_id: 'r1'})": {
        "type": "finish",
        "finish_reason": "completed",
        "request_id": "r1",
    },
    "host.emit('provider_outputs', [{provider: 'p', extension: 'e', value: null}])": {
        "type": "provider_outputs",
        "provider_outputs": [{"provider": "p", "extension": "e", "value": None}],
    },
    "host.emit('progress', {pct: 42})": {"type": "progress", "payload": {"pct": 42}},
    "host.emit('custom')": {"type": "custom"},
}
SKIPPED = (
    "host.emit('tool_call', {name: 'search'})",
    "host.emit('tool_call', 'no JSON')",
    "host.emit('tool_result', {parts: [{type: 'text', text: 'x'}]})",
    "host.emit('tool_result', {tool_call_id: 'c1', parts: []})",
    "host.emit('tool_result', {tool_call_id: 'c1', parts: [{type: 'hologram'}]})",
    "host.emit('part', {type: 'hologram'})",
    "host.emit('part')",
    "host.emit('finish', {})",
    "host.emit('finish', {finish_reason: ''})",
    "host.emit('provider_outputs', [])",
    "host.emit('provider_outputs', {provider: 'p', extension: 'e', value: 1})",
    "host.emit('provider_outputs', [{provider: 'p', value: 1}])",
    "host.emit('provider_outputs', [{provider: 'p', extension: 'e'}])",
    "host.emit('parallel_branch_accept', {})",
)


async def test_each_type_of_emit_is_a_delta_of_the_node(scripts: Mapping[str, Any]) -> None:
    """[GR-256] `host.emit` makes typed deltas; any other type passes through under `payload`."""
    host = RecordingHost()
    await run(scripts, "js", ";\n".join(EMITTED), host=host)
    assert host.deltas == list(EMITTED.values())
    assert {s for s, _ in host.events if s.endswith("delta")} == {
        "agent.run.run-1.stream.agent-1_node_s.delta"
    }


async def test_a_payload_of_the_wrong_shape_is_skipped(scripts: Mapping[str, Any]) -> None:
    """[GR-257] What does not fit its type is not published, and fails nothing."""
    host = RecordingHost()
    await run(scripts, "js", ";\n".join([*SKIPPED, "host.emit('token', 'kept')"]), host=host)
    assert host.deltas == [EMITTED["host.emit('token', 'hi')"] | {"part": {"type": "text", "text": "kept"}}]


async def test_lua_emits_publishes_and_reports(scripts: Mapping[str, Any]) -> None:
    """[GR-258] The same functions in Lua; those that can only fail give an error or nil."""
    host = RecordingHost()
    source = """
      host.emit('token', 'hi')
      host.emit('progress', {pct = 42})
      board.setVar('ok', host.publish('alarm.raised', {level = 1}) == nil)
      local err = host.publish('agent.run.other.end', {})
      board.setVar('kind', err.kind)
      board.setVar('used', host.reportUsage({input = 3, output = 4}) == nil)
    """
    board = await run(scripts, "lua", source, host=host)
    assert board.vars() == {"ok": True, "kind": "validation", "used": True}
    assert [delta["type"] for delta in host.deltas] == ["part", "progress"]
    assert ("alarm.raised", {"level": 1}) in host.events
    assert [(u.prompt_tokens, u.completion_tokens) for u in host.usage] == [(3, 4)]


async def test_a_failing_publisher_fails_publish_but_not_emit(scripts: Mapping[str, Any]) -> None:
    """[GR-259] `emit` is a preview that nothing waits for; `publish` says that it failed."""

    class Deaf(RecordingHost):
        async def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
            if ".step." not in subject and not subject.endswith((".start", ".end")):
                raise OSError("the bus is down")

    source = (
        "host.emit('token', 'x'); try { host.publish('a.b', {}) } catch (e) { board.setVar('e', e.kind) }"
    )
    board = await run(scripts, "js", source, host=Deaf())
    assert board["e"] == "internal"


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_a_spent_budget_ends_the_node_whatever_the_script_catches(
    scripts: Mapping[str, Any], runtime: str
) -> None:
    """[GR-260] A script cannot go on behind a budget of the host that is used up."""
    host = RecordingHost()
    host.limit = 10
    source = {
        "js": "try { host.reportUsage({total: 11}) } catch (e) {} board.setVar('after', 1)",
        "lua": "pcall(host.reportUsage, {total = 11}) board.setVar('after', 1)",
    }
    board = graph.Board()
    with pytest.raises(graph.GraphRunError) as failed:
        await run(scripts, runtime, source[runtime], board, host=host)
    assert (failed.value.kind, failed.value.http_status, board.vars()) == ("budget_exceeded", 429, {})


async def test_questions_reach_the_host_and_answers_the_script(scripts: Mapping[str, Any]) -> None:
    """[GR-261] `host.askUser` asks with parts, schema, source and metadata, in both languages."""
    host = RecordingHost(reply={"parts": [TEXT], "metadata": {"by": "ada"}})
    js = "board.setVar('a', host.askUser({parts: [{type: 'text', text: 'sure?'}], metadata: {k: 'v'}}))"
    lua = "local a = host.askUser({source = 'step 2', schema = {type = 'object'}}) board.setVar('a', a)"
    for runtime, source in (("js", js), ("lua", lua)):
        board = await run(scripts, runtime, source, host=host)
        assert board["a"] == {"parts": [TEXT], "metadata": {"by": "ada"}}
    first, second = host.asked
    assert first["parts"] == [{"type": "text", "text": "sure?"}]
    assert (first["source"], first["metadata"], first["node_id"]) == ("s", {"k": "v"}, "s")
    assert (second["source"], second["schema"]) == ("step 2", {"type": "object"})


async def test_without_a_host_its_functions_do_nothing(scripts: Mapping[str, Any]) -> None:
    """[GR-262] Scripts call `host` unconditionally; without one, answers are null. Steering needs one."""
    source = """
      host.emit('token', 'x'); host.publish('a.b', {}); host.reportUsage({input: 1});
      board.setVar('r', [host.askUser({}), host.checkInterrupt()]);
      try { host.drainSteer() } catch (e) { board.setVar('e', e.kind) }
    """
    board = await run(scripts, "js", source)
    assert board.vars() == {"r": [None, None], "e": "not_available"}


async def test_a_host_that_refuses_or_answers_later(scripts: Mapping[str, Any]) -> None:
    """[GR-263] A refusal is the script's to catch; a question that waits interrupts the run."""
    refused = RecordingHost(reply=graph.GraphRunError("nobody is here", kind="not_available"))
    source = "try { host.askUser({}) } catch (e) { board.setVar('e', e.kind) }"
    assert (await run(scripts, "js", source, host=refused))["e"] == "not_available"
    later = RecordingHost(reply=graph.Interrupted("user_input", "sure?"))
    board = graph.Board()
    with pytest.raises(graph.Interrupted) as stopped:
        await run(scripts, "js", source, board, host=later)
    assert stopped.value.cause == "user_input"
    assert board.vars() == {"__interrupted_node": "s"}


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_a_pending_interrupt_is_seen_and_stays(scripts: Mapping[str, Any], runtime: str) -> None:
    """[GR-264] `host.checkInterrupt` gives cause and detail as long as the run lives."""

    class Busy(RecordingHost):
        async def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
            if subject.endswith(".start") and ".step." in subject:
                self.interrupt = graph.Interrupt("user_cancel", "enough")

        def poll_interrupt(self) -> graph.Interrupt | None:
            found, self.interrupt = self.interrupt, None
            return found

    source = "board.setVar('a', host.checkInterrupt().detail) board.setVar('b', host.checkInterrupt().cause)"
    if runtime == "js":
        source = source.replace(") board", "); board")
    board = graph.Board()
    with pytest.raises(graph.Interrupted):
        await run(scripts, runtime, source, board, host=Busy())
    assert (board["a"], board["b"]) == ("enough", "user_cancel")


STEER = {
    "js": "var pending = host.drainSteer(); board.appendChannel(board.MAIN_CHANNEL, pending);",
    "lua": "local pending = host.drainSteer() board.appendChannel(board.MAIN_CHANNEL, pending)",
}


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_the_steer_node_takes_all_there_is(scripts: Mapping[str, Any], runtime: str) -> None:
    """[GR-265] `host.drainSteer` takes every message; an empty queue appends nothing."""
    host = RecordingHost(steer=[said("user", "one"), said("user", "two")])
    board = graph.Board(channels={graph.MAIN_CHANNEL: [said("user", "a")]})
    await run(scripts, runtime, STEER[runtime], board, host=host)
    assert [message.text for message in board.main] == ["a", "one", "two"]
    await run(scripts, runtime, STEER[runtime], board, host=host)
    assert len(board.main) == 3
