"""The kinds that keep and carry: folders, stores, the bus. Each setting changes something."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.graph.deploy.documents import chain, changed, refused, registry, run
from tests.graph.deploy.test_kinds import SECRET, lists, provider
from toolnexus import Client, GraphEvent
from toolnexus.graph import (
    Board,
    GraphRunError,
    NodeContext,
    deploy,
)
from toolnexus.graph.bus import Event
from toolnexus.tools.builtin.sandbox import bubblewrap

pytestmark = pytest.mark.anyio


async def test_a_workspace_and_a_sandbox_are_folders_with_bounds(tmp_path: Path) -> None:
    """[GR-526] Globs that allow and deny; commands, their time, their variables."""
    (tmp_path / "work").mkdir()
    for name in ("a.txt", "b.txt", "c.md"):
        (tmp_path / "work" / name).write_text(name)
    here = os.readlink("/proc/self/ns/net")
    same = f"shell.exec('readlink', '/proc/self/ns/net').stdout.trim() === '{here}'"
    behind = bubblewrap(str(tmp_path), wanted="auto", network=True) is not None
    scripts: list[tuple[str, dict[str, Any], Any]] = [
        (same, {"box": {"isolation": False}}, True),
        (same, {"box": {"isolation": "auto", "network": True}}, True),
        (same, {"box": {"isolation": "auto"}}, not behind),
        ("fs.read('a.txt')", {"ws": {}}, "a.txt"),
        ("fs.read('../deploy.yaml')", {"ws": {}}, "forbidden"),
        ("fs.read('b.txt')", {"ws": {"deny": ["b.*"]}}, "forbidden"),
        ("fs.read('c.md')", {"ws": {"allow": ["*.txt"]}}, "forbidden"),
        ("shell.exec('cat', 'a.txt').stdout", {"box": {}}, "a.txt"),
        ("shell.exec('cat', 'a.txt').exit_code", {"box": {"allow": ["ls"]}}, -1),
        ("shell.exec('sleep', '5').exit_code", {"box": {"timeout": "50ms"}}, -1),
        ("shell.exec('sh', '-c', 'echo $MINE').stdout", {"box": {"environment": {"MINE": "x"}}}, "x\n"),
    ]
    document = chain("n")
    document["resources"] = resources = dict[str, Any]()
    resources |= {"rt": {"kind": "agent.ScriptRuntime", "impl": "js", "settings": {"pool_size": 1}}}
    agent = document["agents"].pop("asst")
    for n, (source, settings, _) in enumerate(scripts):
        (kind,) = settings
        if kind == "ws":
            of, own = "workspace.Workspace", {"root": "work"}
        else:
            of, own = "sandbox.Runner", {"root": "${base}/work", "isolation": False}
        entry = {"kind": of, "impl": "local", "settings": {**own, **settings[kind]}}
        resources[f"r{n}"] = entry
        code = f"var x; try {{ x = {source} }} catch (e) {{ x = e.kind }} board.setVar('x', x)"
        graph = {**agent["engine"]["settings"]["graph"]}
        graph["nodes"] = [{"id": "n0", "type": "script", "config": {"runtime": "js", "source": code}}]
        deps = {"script_runtime": "rt", {"ws": "workspace", "box": "sandbox"}[kind]: f"r{n}"}
        document["agents"][f"a{n}"] = {
            "engine": {**agent["engine"], "deps": deps, "settings": {"graph": graph}}
        }
    async with deploy(document, folder=tmp_path) as deployment, asyncio.timeout(20):
        results = [(await run(deployment, {}, f"a{n}")).output["x"] for n in range(len(scripts))]
    assert results == [expected for _, _, expected in scripts]


async def test_a_workspace_is_also_the_folder_of_the_file_tools(tmp_path: Path) -> None:
    """[GR-526] An agent reads where its scripts read."""

    async def where(ctx: NodeContext, board: Board, config: Any) -> None:
        board["here"] = str(ctx.rail.frame.workdir)

    document = changed(chain("where"), "agents", "asst", "engine", "deps", "workspace", to="ws")
    document["resources"]["ws"] = {"kind": "workspace.Workspace", "impl": "local", "settings": {"root": "."}}
    async with deploy(document, registry=registry(where=where), folder=tmp_path) as deployment:
        assert (await run(deployment, {})).output == {"here": str(tmp_path)}


@pytest.mark.parametrize(
    ("kind", "settings", "path", "says"),
    [
        ("workspace.Workspace", {"root": "none"}, "", "the folder of a workspace is none"),
        ("workspace.Workspace", {"root": ".", "deny": ["/x"]}, "", "must be a path in the workspace"),
        ("workspace.Workspace", {}, "settings.root", "it is missing"),
        ("sandbox.Runner", {"root": ".", "timeout": 5}, "settings.timeout", "write it with a unit"),
        ("sandbox.Runner", {"root": "none"}, "", "the folder of a sandbox is none"),
        ("sandbox.Runner", {"root": ".", "isolation": "maybe"}, "settings.isolation", "auto"),
        ("event.Bus", {"route_cache_size": 1}, "settings", "has no settings"),
        ("checkpoint.Store", {"path": "x"}, "settings", "has no settings"),
    ],
)
def test_settings_of_folders_and_stores_that_are_wrong(
    kind: str, settings: dict[str, Any], path: str, says: str, tmp_path: Path
) -> None:
    """[GR-526] Told at their key, or where the resource stands."""
    impl = "memory" if kind in ("event.Bus", "checkpoint.Store") else "local"
    document = chain("lists")
    document["resources"]["r"] = {"kind": kind, "impl": impl, "settings": settings}
    issues = refused(document, registry(lists=lists), folder=tmp_path).issues
    where = f"resources.r{'.' if path else ''}{path}"
    assert any(i.path == where and says in i.message for i in issues), issues


@pytest.mark.parametrize(
    "store",
    [
        {"impl": "memory"},
        {"impl": "sqlite", "settings": {"path": "c.db"}},
        {"impl": "files", "settings": {"path": "c"}},
    ],
)
async def test_the_checkpoint_store_keeps_where_runs_stand(store: dict[str, Any], tmp_path: Path) -> None:
    """[GR-522] After every wave, and a run goes on from there, in another deployment for those on a disk."""
    ran: list[str] = []

    async def first(ctx: NodeContext, board: Board, config: Any) -> None:
        ran.append("first")
        board["x"] = 1

    async def second(ctx: NodeContext, board: Board, config: Any) -> None:
        ran.append("second")
        if ran.count("second") == 1:
            raise GraphRunError("the power went")

    document = chain("first", "second")
    document["resources"] |= {
        "events": {"kind": "event.Bus", "impl": "memory"},
        "cps": {"kind": "checkpoint.Store", **store},
    }
    document["runtime"] = {"event_bus": "events", "checkpoint_store": "cps"}
    made = registry(first=first, second=second)
    async with deploy(document, registry=made, folder=tmp_path) as deployment:
        with pytest.raises(GraphRunError, match="the power went"):
            await run(deployment, {})
        assert deployment.checkpoints is not None
        (id,) = await deployment.checkpoints.list()
        kept = await deployment.checkpoints.load(id)
        assert kept is not None and list(kept.steps) == ["n0"]
    if store["impl"] != "memory":
        async with deploy(document, registry=made, folder=tmp_path) as deployment:
            assert deployment.checkpoints is not None
            point = await deployment.checkpoints.load(id)
            assert (await run(deployment, point)).output == {"x": 1}
        assert ran == ["first", "second", "second"]


async def test_the_event_bus_has_the_events_of_all_runs_and_no_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[GR-523] Whoever subscribes sees the runs of every agent under their subjects; scripts, those of their
    own."""
    monkeypatch.setenv("MY_KEY", SECRET)

    async def says(ctx: NodeContext, board: Board, config: Any) -> None:
        await ctx.emit_text(f"the key is {SECRET}")

    document = chain("says")
    document["resources"] |= {
        "events": {"kind": "event.Bus", "impl": "memory"},
        "p": provider("http://127.0.0.1:1", api_key="${MY_KEY}"),
    }
    document["runtime"] = {"event_bus": "events"}
    document["agents"]["other"] = document["agents"]["asst"]
    async with deploy(document, registry=registry(says=says)) as deployment, asyncio.timeout(10):
        assert deployment.checkpoints is None and deployment.event_bus is not None
        subscription = deployment.event_bus.subscribe("agent.run.>")
        for name in ("asst", "other"):
            await run(deployment, {}, name)
        events: list[Event] = []
        while (event := subscription.take()) is not None:
            events.append(event)
    subjects = [event.subject.split(".", 3)[3] for event in events]
    for name in ("asst", "other"):
        actor = f"{name}_node_n0"
        assert [s for s in subjects if actor in s] == [
            f"step.{actor}.start",
            f"stream.{actor}.delta",
            f"step.{actor}.complete",
        ]
    assert subjects.count("start") == subjects.count("end") == 2
    assert SECRET not in str(events)
    assert "[redacted]" in str(events)
    wrong = changed(document, "runtime", to={"event_bus": "p"})
    assert "it needs a resource of kind event.Bus; 'p' is inference.Provider" in str(
        refused(wrong, registry(says=says))
    )


async def test_events_reach_a_stream_with_and_without_a_bus() -> None:
    """[GR-523] A client that streams a run has its events either way."""

    async def says(ctx: NodeContext, board: Board, config: Any) -> None:
        await ctx.emit_text("hello")

    document = chain("says")
    for bus in (False, True):
        if bus:
            document["resources"]["events"] = {"kind": "event.Bus", "impl": "memory"}
            document["runtime"] = {"event_bus": "events"}
        async with (
            deploy(document, registry=registry(says=says)) as deployment,
            Client(builtins=False) as client,
        ):
            async with client.stream({}, target=deployment.agents["asst"]) as stream:
                events = [event async for event in stream if isinstance(event, GraphEvent)]
        assert [event.payload["part"]["text"] for event in events if "part" in event.payload] == ["hello"]
