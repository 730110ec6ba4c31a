"""`stream` and `parallel` in scripts: following and ending siblings of a wave."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.graph.bindings.kit import RUNTIMES, RecordingHost, run
from toolnexus import graph
from toolnexus.graph.bus import EventBus

pytestmark = pytest.mark.anyio


class BusHost(RecordingHost):
    """A host whose scripts can follow its events."""

    def __init__(self) -> None:
        super().__init__()
        self.event_bus = EventBus()

    async def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        self.event_bus.publish(subject, payload)
        await super().publish(subject, payload)


def follow(runtime: str, source: str, skip: str = "") -> dict[str, Any]:
    """A graph whose `a` follows its sibling `b`."""
    return {
        "name": "g",
        "entry": "start",
        "nodes": [
            {"id": "start", "type": "begin"},
            {"id": "a", "type": "script", "config": {"runtime": runtime, "source": source}},
            {"id": "b", "type": "work", "skip_condition": skip},
        ],
        "edges": [{"from": "start", "to": "a"}, {"from": "start", "to": "b"}],
    }


class World:
    """`work` waits until the script has subscribed (it sets `ready`), then does what `does` says."""

    def __init__(self, scripts: Mapping[str, Any], runtime: str = "js") -> None:
        self.registry = graph.Registry.standard(graph.Services(scripts=scripts))
        self.runtime = runtime
        self.host = BusHost()
        self.fails = False
        self.hangs = False
        subscribe = self.host.event_bus.subscribe
        self._ready = asyncio.Event()

        def subscribing(*patterns: str, size: int = 256) -> Any:
            self._ready.set()
            return subscribe(*patterns, size=size)

        self.host.event_bus.subscribe = subscribing  # pyright: ignore[reportAttributeAccessIssue]

        @self.registry.node_type("begin")
        async def _begin(ctx: graph.NodeContext, board: graph.Board, config: Any) -> None:  # pyright: ignore
            pass

        @self.registry.node_type("work")
        async def _work(ctx: graph.NodeContext, board: graph.Board, config: Any) -> None:  # pyright: ignore
            await self._ready.wait()
            await ctx.emit_text("half")
            await ctx.emit({"type": "progress", "payload": {"pct": 50}, "id": "p1"})
            if self.hangs:
                await asyncio.Event().wait()
            if self.fails:
                raise graph.GraphRunError("no", kind="internal")

    async def run(self, source: str, **document: Any) -> graph.Board:
        definition = graph.GraphDefinition.from_data(follow(self.runtime, source, **document))
        options = graph.BuildOptions(parallel=graph.ParallelOptions(enabled=True))
        made = graph.build(definition, self.registry, options, script_runtime_name=self.runtime)
        board = graph.Board()
        async with asyncio.timeout(10):
            return await made.run(board, host=self.host, run_id="run-1", agent_id="agent-1")


COLLECT = {
    "js": """
      var iter = stream.subscribe_node({node_id: 'b'});
      var all = [];
      while (iter.next()) { all.push(iter.current()); }
      board.setVar('all', all); iter.close();
    """,
    "lua": """
      local iter = stream.subscribe_node({node_id = 'b'})
      local all = {}
      while iter.next_timeout_ms(5000) do all[#all + 1] = iter.current() end
      board.setVar('all', all) iter.close()
    """,
}


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_a_script_follows_a_sibling_to_its_end(scripts: Mapping[str, Any], runtime: str) -> None:
    """[GR-400] Events of a node come as maps, in order, until it has ended: then there are no more."""
    board = await World(scripts, runtime).run(COLLECT[runtime])
    events = [e for e in board["all"] if e["event"] != "step.started"]
    assert [(e["event"], e.get("type"), e["node_id"]) for e in events] == [
        ("stream.delta", "part", "b"),
        ("stream.delta", "progress", "b"),
        ("step.ended", None, "b"),
    ]
    text, progress, end = events
    assert text["part"] == {"type": "text", "text": "half"}
    assert (text["speculative"], text["branch_id"], text["id"]) == (True, "b", text["envelope_id"])
    assert (progress["payload"], progress["id"]) == ({"pct": 50}, "p1")
    assert (end["status"], end["run_id"], end["agent_id"]) == ("success", "run-1", "agent-1")
    assert end["subject"] == "agent.run.run-1.step.agent-1_node_b.complete"
    assert end["time"].endswith("Z")


async def test_failures_skips_and_cancels_end_the_events_of_a_node(scripts: Mapping[str, Any]) -> None:
    """[GR-401] `step.ended` has the status `error`, `step.skipped` is an end, and so is a cancel."""
    world = World(scripts)
    world.fails = True
    source = COLLECT["js"].replace("board.setVar('all', all)", "host.publish('seen', {all: all})")
    with pytest.raises(graph.GraphRunError):
        await world.run(source)
    seen = next(payload for subject, payload in world.host.events if subject == "seen")
    assert (seen["all"][-1]["event"], seen["all"][-1]["status"]) == ("step.ended", "error")
    cancelled = COLLECT["js"].replace("var all", "parallel.cancelNode('b', 'enough'); var all")
    world = World(scripts)
    world.hangs = True
    board = await world.run(cancelled)
    assert board["all"][-1]["type"] == "parallel_branch_cancel"


async def test_a_skipped_node_says_so(scripts: Mapping[str, Any]) -> None:
    """[GR-402] The end of a node that was skipped comes as `step.skipped`."""

    class Later(BusHost):
        """Publishes the skip once the script listens."""

        async def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
            if payload.get("skipped"):
                async with asyncio.timeout(10):
                    await listening.wait()
            await super().publish(subject, payload)

    listening = asyncio.Event()
    later = Later()
    subscribe = later.event_bus.subscribe

    def subscribing(*patterns: str, size: int = 256) -> Any:
        listening.set()
        return subscribe(*patterns, size=size)

    later.event_bus.subscribe = subscribing  # pyright: ignore[reportAttributeAccessIssue]
    world = World(scripts)
    world.host = later
    board = await world.run(COLLECT["js"], skip="true")
    assert [(e["event"], e["status"]) for e in board["all"]] == [("step.skipped", "skipped")]


async def test_a_slow_script_loses_the_oldest_events(scripts: Mapping[str, Any]) -> None:
    """[GR-403] A full buffer drops its oldest event, never the end."""
    source = """
      var iter = stream.subscribe_node({node_ids: ['b'], buffer_size: 1});
      var other = stream.subscribe_node({node_id: 'b'});
      while (other.next()) {}
      board.setVar('got', [iter.next(), iter.current().event, iter.next()]);
    """
    board = await World(scripts).run(source)
    assert board["got"] == [True, "step.ended", False]


async def test_waiting_has_a_limit_and_polling_none(scripts: Mapping[str, Any]) -> None:
    """[GR-404] `next_timeout_ms` gives false when nothing came; the subscription stays open."""
    source = """
      var own = stream.subscribe_node({node_id: 's'});
      var got = [own.next_timeout_ms(0), own.current(), own.next_timeout_ms(10)];
      host.emit('progress', 7);
      got.push(own.next(), own.current().payload, own.next_timeout_ms(0));
      own.close(); own.close(); got.push(own.next());
      try { own.next_timeout_ms(-1) } catch (e) { got.push(e.kind) }
      board.setVar('got', got);
    """
    board = await run(scripts, "js", source, host=BusHost())
    assert board["got"] == [False, None, False, True, 7, False, False, "validation"]


async def test_a_node_that_is_not_in_flight_has_no_events(scripts: Mapping[str, Any]) -> None:
    """[GR-405] Nobody waits for a node that cannot say anything any more, or not yet."""
    source = "board.setVar('got', stream.subscribe_node({node_ids: ['later', 'never']}).next())"
    async with asyncio.timeout(5):
        board = await run(scripts, "js", source, host=BusHost())
    assert board["got"] is False


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ("{node_id: 's', run_id: 'run-1', buffer_size: 4096}", None),
        ("{node_id: 's', run_id: 'run-2'}", "validation"),
        ("{node_id: 's', node_ids: ['s']}", "validation"),
        ("{}", "validation"),
        ("{node_ids: []}", "validation"),
        ("{node_id: ''}", "validation"),
        ("{node_id: 's', buffer_size: 0}", "validation"),
        ("{node_id: 's', buffer_size: 4097}", "validation"),
        ("{node_id: 's', buffer_size: 1.5}", "validation"),
        ("{node: 's'}", "validation"),
    ],
)
async def test_options_of_a_subscription_are_checked(
    scripts: Mapping[str, Any], options: str, kind: str | None
) -> None:
    """[GR-406] Either a node or several, of this run only, with a buffer of 1 to 4096 events."""
    source = f"try {{ stream.subscribe_node({options}) }} catch (e) {{ board.setVar('kind', e.kind) }}"
    board = await run(scripts, "js", source, host=BusHost())
    assert board.get("kind") == kind


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_without_a_bus_nothing_can_be_followed(scripts: Mapping[str, Any], runtime: str) -> None:
    """[GR-407] A host without a bus of events makes `stream` not available."""
    source = {
        "js": "try { stream.subscribe_node({node_id: 's'}) } catch (e) { board.setVar('kind', e.kind) }",
        "lua": "local _, err = stream.subscribe_node({node_id = 's'}) board.setVar('kind', err.kind)",
    }
    board = await run(scripts, runtime, source[runtime], host=RecordingHost())
    assert board["kind"] == "not_available"


async def test_subscriptions_end_with_the_script(scripts: Mapping[str, Any]) -> None:
    """[GR-408] Whatever way a script ends, its subscriptions are closed."""
    host = BusHost()
    with pytest.raises(graph.GraphRunError):
        await run(scripts, "js", "stream.subscribe_node({node_id: 's'}); throw 1", host=host)
    assert host.event_bus._subscriptions == []  # pyright: ignore[reportPrivateUsage]


async def test_a_script_cannot_subscribe_without_end(scripts: Mapping[str, Any]) -> None:
    """[GR-425] A script may open 256 subscriptions and other objects, no more."""
    source = "for (;;) stream.subscribe_node({node_id: 's'})"
    with pytest.raises(graph.GraphRunError, match="may open 256") as failed:
        await run(scripts, "js", source, host=BusHost())
    assert failed.value.kind == "not_available"


async def test_the_bus_takes_patterns() -> None:
    """[GR-409] `*` is one token of a subject, `>` the rest; a closed subscription gives None."""
    bus = EventBus()
    one, rest, exact = bus.subscribe("a.*.c"), bus.subscribe("a.>"), bus.subscribe("a", "x.y")
    for subject in ("a", "a.b.c", "a.b", "a.b.c.d", "x.y"):
        bus.publish(subject, {})

    def taken(subscription: Any) -> list[str]:
        return [event.subject for event in iter(subscription.take, None)]

    assert taken(one) == ["a.b.c"]
    assert taken(rest) == ["a.b.c", "a.b", "a.b.c.d"]
    assert taken(exact) == ["a", "x.y"]
    waiting = asyncio.ensure_future(one.next())
    await asyncio.sleep(0)
    one.close()
    async with asyncio.timeout(5):
        assert await waiting is None


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_a_script_cancels_a_sibling(scripts: Mapping[str, Any], runtime: str) -> None:
    """[GR-410] `parallel.cancelNode` is true for a sibling in flight, and the wave goes on without it."""
    world = World(scripts, runtime)
    board = await world.run("board.setVar('done', parallel.cancelNode('b', 'enough'))")
    assert board["done"] is True
    join = next(payload for subject, payload in world.host.events if subject.endswith(".join"))
    assert join["cancelled"] == ["b"]
