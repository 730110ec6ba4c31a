"""Resources: who makes them, what they take from each other, when they open and close."""

import asyncio
import gc
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from tests.graph.deploy.documents import chain, changed, refused, registry, run, write
from toolnexus import ConfigError
from toolnexus.graph import (
    Board,
    Dep,
    ErrorKind,
    EventBus,
    NodeContext,
    NodeType,
    ResourceInput,
    ResourceRegistry,
    deploy,
)

pytestmark = pytest.mark.anyio


class Part:
    """A resource that notes what happens to it."""

    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        self.name, self.log, self.fails = name, log, fails
        log.append(f"make {name}")

    async def open(self) -> None:
        await asyncio.sleep(0)
        self.log.append(f"open {self.name}")
        if self.fails == "open":
            raise RuntimeError(f"{self.name} does not open")

    async def aclose(self) -> None:
        self.log.append(f"close {self.name}")
        if self.fails == "close":
            raise RuntimeError(f"{self.name} does not close")


def parts(log: list[str], **fails: str) -> ResourceRegistry:
    """`part/any` takes any number of parts, `box/any` is a box of them."""
    made = registry()
    many = {"part": Dep("part", many=True), "one": Dep("part")}
    made.register("part", "any", lambda g: Part(g.name, log, fails.get(g.name, "")), deps=many)
    made.register("box", "any", lambda g: {"x": f"{g.name}.x"}, items="part")

    async def nothing(ctx: NodeContext, board: Board, config: Any) -> None: ...

    def node_type(given: ResourceInput) -> NodeType:
        log.append(f"{given.name} takes {given.deps}")
        return NodeType(name="nothing", handler=nothing)

    made.register("graph.NodeType", "nothing", node_type, deps=many)
    return made


def resource(*deps: str, kind: str = "part") -> dict[str, Any]:
    return {"kind": kind, "impl": "any", "deps": {f"part.{name}": name for name in deps}}


def document(**resources: Any) -> dict[str, Any]:
    """These resources beside an agent that runs one node."""
    made = chain("nothing")
    return {**made, "resources": {**made["resources"], **resources}}


async def test_each_is_made_once_and_opened_in_order_and_closed_in_reverse() -> None:
    """[GR-505] A resource that several need is one; what is needed comes first and goes last."""
    log: list[str] = []
    source = document(c=resource("a", "b"), b=resource("a"), a=resource())
    deployment = deploy(source, registry=parts(log))
    assert [line for line in log if line.startswith("make")] == ["make a", "make b", "make c"]
    assert not any(line.startswith("open") for line in log), "deploying starts nothing"
    async with deployment:
        assert [line for line in log if line.startswith("open")] == ["open a", "open b", "open c"]
        assert (await run(deployment, {})).status == "done"
    assert [line for line in log if line.startswith("close")] == ["close c", "close b", "close a"]
    await deployment.aclose()
    assert log.count("close a") == 1


async def test_a_bare_deployment_opens_once_with_the_first_run_and_a_closed_one_refuses() -> None:
    """[GR-505] Several first runs at once open it once."""
    log: list[str] = []
    deployment = deploy(document(a=resource()), registry=parts(log))
    async with asyncio.timeout(5):
        await asyncio.gather(*[run(deployment, {}) for _ in range(3)])
    assert log.count("open a") == 1
    await deployment.aclose()
    with pytest.raises(ConfigError, match="this deployment is closed"):
        await run(deployment, {})


async def test_a_deployment_that_nobody_closed_is_told() -> None:
    """[GR-505] Like a client; one that was never opened is not."""
    deploy(document(a=resource()), registry=parts([]))
    with pytest.warns(ResourceWarning, match="unclosed Deployment"):
        await deploy(document(a=resource()), registry=parts([])).open()
        gc.collect()


async def test_what_fails_to_open_or_close_does_not_keep_the_others_open() -> None:
    """[GR-505] The failure comes out; everything is closed all the same."""
    log: list[str] = []
    source = document(a=resource(), b=resource("a"), c=resource("b"))
    with pytest.raises(RuntimeError, match="b does not open"):
        async with deploy(source, registry=parts(log, b="open")):
            raise AssertionError("it was entered")
    assert [line for line in log if line.startswith("close")] == ["close c", "close b", "close a"]
    log.clear()
    with pytest.raises(RuntimeError, match="b does not close"):
        async with deploy(source, registry=parts(log, b="close")):
            pass
    assert [line for line in log if line.startswith("close")] == ["close c", "close b", "close a"]


def test_resources_in_a_circle_are_refused_with_the_circle(tmp_path: Path) -> None:
    """[GR-504] The error names the resources in their order, and where one of them stands."""
    source = document(a=resource("b"), b=resource("c"), c=resource("a"))
    error = refused(source, parts([]))
    (issue,) = error.issues
    assert issue.path in {"resources.a.deps", "resources.b.deps", "resources.c.deps"}
    assert "need each other in a circle" in issue.message
    around = issue.message.partition(": ")[2].split(" → ")
    assert around[0] == around[-1] and set(around) == {"a", "b", "c"}
    for here, there in pairwise(around):
        assert f"part.{there}" in source["resources"][here]["deps"]
    assert "in a circle: a → a" in str(refused(document(a=resource("a")), parts([])))


def test_an_item_of_a_resource_is_named_with_a_slash() -> None:
    """[GR-506] `resource/item` is one value of a resource that has items, and of its kind."""
    log: list[str] = []
    one = {"kind": "graph.NodeType", "impl": "nothing", "deps": {"one": "box/x"}}
    box = resource(kind="box")
    box["deps"] = {}
    deploy(document(nothing=one, box=box), registry=parts(log))
    assert "nothing takes {'one': 'box.x'}" in log
    for target, says in {
        "box": "it needs a resource of kind part; 'box' is box; write box/<item>",
        "box/y": "'box' has no item 'y'; items: x",
        "a/x": "'a' is a part, which has no items; write 'a' alone",
        "box/": "'box/' is no reference; write resource, or resource/item",
        "box/x/y": "is no reference",
        "/x": "is no reference",
    }.items():
        wrong = changed(
            document(box=box, a=resource(), nothing=one), "resources", "nothing", "deps", "one", to=target
        )
        error = refused(wrong, parts([]))
        assert [(i.path, says in i.message) for i in error.issues] == [
            ("resources.nothing.deps.one", True)
        ], error


@pytest.mark.parametrize(
    ("change", "to", "path", "says", "kind"),
    [
        (("kind",), "parts", "kind", "no kind 'parts' is known; did you mean 'part'", ErrorKind.NOT_FOUND),
        (("impl",), "anx", "impl", "part has no impl 'anx'; did you mean 'any'", ErrorKind.NOT_FOUND),
        (("deps",), {"prt": "b"}, "deps.prt", "part/any has no dep 'prt'; did you mean 'part'", None),
        (("deps",), {"one.more": "b"}, 'deps."one.more"', "it takes: part, part.<suffix>, one", None),
        (("deps",), {"one": "bb"}, "deps.one", "no resource 'bb'; did you mean 'b'", ErrorKind.NOT_FOUND),
        (("deps",), {"part.": "b"}, 'deps."part."', "part/any has no dep 'part.'", None),
        (("deps",), {"one": "nothing"}, "deps.one", "of kind part; 'nothing' is graph.NodeType", None),
        (("settings",), {"x": 1}, "settings", "part/any has no settings; it was given x", None),
    ],
)  # fmt: skip
def test_what_the_registry_does_not_know_is_refused(
    change: tuple[str, ...], to: Any, path: str, says: str, kind: ErrorKind | None
) -> None:
    """[GR-503] Kind, impl, dep, reference and settings are checked before anything is made."""
    log: list[str] = []
    error = refused(
        changed(document(a=resource(), b=resource()), "resources", "a", *change, to=to), parts(log)
    )
    assert [issue.path for issue in error.issues] == [f"resources.a.{path}"]
    assert says in error.issues[0].message
    assert error.kind is (kind or ErrorKind.VALIDATION)
    assert not log


def test_a_required_dep_that_is_missing_is_told() -> None:
    """[GR-503] The error names the dep and the kind that it takes."""
    source = document(tools={"kind": "tool.Assembly", "impl": "memory"})
    (issue,) = refused(source, parts([])).issues
    assert issue.path == "resources.tools.deps"
    assert issue.message == "the dep 'tool' is missing: a resource of kind tool.Source"
    assert issue.kind is ErrorKind.NOT_FOUND


class Sized(BaseModel):
    """The settings of a resource of the host."""

    model_config = ConfigDict(extra="forbid")
    size: int
    name: str = "x"


def test_a_factory_of_the_host_gets_its_deps_and_its_settings(tmp_path: Path) -> None:
    """[GR-519] `register` says what a resource takes; the document is held to it."""
    seen: list[ResourceInput] = []

    def make(given: ResourceInput) -> str:
        seen.append(given)
        return given.name

    made = parts([])
    made.register("thing", "sized", make, deps={"base": "part"}, settings=Sized)
    sized = {"kind": "thing", "impl": "sized", "deps": {"base": "a"}, "settings": {"size": 3}}
    source = document(s=sized, a=resource())
    deployment = deploy(source, registry=made, folder=tmp_path)
    (given,) = seen
    assert (given.name, given.kind, given.impl) == ("s", "thing", "sized")
    assert given.settings == Sized(size=3)
    assert isinstance(given.deps["base"], Part)
    assert given.path("x/y") == tmp_path / "x" / "y"
    assert given.path("/x") == Path("/x")
    assert deployment.resources["s"] == "s"
    error = refused(changed(source, "resources", "s", "settings", to={"sise": 3}), made)
    assert {i.path: i.message.partition(";")[0] for i in error.issues} == {
        "resources.s.settings.sise": "unknown key 'sise'",
        "resources.s.settings.size": "it is missing",
    }


def test_what_a_factory_raises_or_gives_wrongly_is_an_error_at_its_place(tmp_path: Path) -> None:
    """[GR-519] Every failure is told, what depends on it is not, and nothing of the text is lost."""
    made = parts([])

    def wrong(given: ResourceInput) -> Any:
        raise ValueError("settings.x: not so")

    def broken(given: ResourceInput) -> Any:
        raise ZeroDivisionError("oh")

    made.register("part", "wrong", wrong)
    made.register("part", "broken", broken)
    made.register("tool.Source", "odd", lambda given: [1])
    made.register("box", "odd", lambda given: 1, items="part")
    source = document(
        w={"kind": "part", "impl": "wrong"},
        b={"kind": "part", "impl": "broken"},
        t={"kind": "tool.Source", "impl": "odd"},
        x={"kind": "box", "impl": "odd"},
        after=resource("w"),
    )
    text = write(tmp_path, str(source).replace("'", '"'))
    error = refused(text, made)
    assert {i.path: i.message for i in error.issues} == {
        "resources.w": "settings.x: not so",
        "resources.b": "its factory failed: ZeroDivisionError: oh",
        "resources.t": "the factory of tool.Source/odd gave list; tool.Source is a list of Tool objects, "
        "or a ToolSource",
        "resources.x": "box/odd has items, so it is a mapping, not int",
    }
    assert all(issue.line == 1 for issue in error.issues)
    assert isinstance(error.__cause__, ZeroDivisionError), "where the factory failed is not lost"


@pytest.mark.parametrize(
    "kind",
    [
        *("agent.Engine", "agent.ScriptBindings", "agent.ScriptRuntime", "checkpoint.Store", "event.Bus"),
        *("graph.NodeType", "inference.Assembly", "inference.Extension", "inference.Provider"),
        *("inference.Router", "sandbox.Runner", "tool.Assembly", "tool.Source", "workspace.Workspace"),
    ],
)
def test_what_a_host_gives_must_be_what_the_kind_needs(kind: str) -> None:
    """[GR-519] Told where the resource stands, before anything uses it."""
    made = parts([])
    made.register(kind, "odd", lambda given: object())
    source = document(odd={"kind": kind, "impl": "odd"})
    if kind == "agent.Engine":
        source = changed(document(), "agents", "asst", "engine", to={"kind": kind, "impl": "odd"})
    (issue,) = refused(source, made).issues
    assert issue.path == ("agents.asst.engine" if kind == "agent.Engine" else "resources.odd")
    assert issue.message.startswith(f"the factory of {kind}/odd gave object; {kind} is ")


def test_the_bus_may_be_an_item_of_a_resource() -> None:
    """[GR-506] In `runtime`, too; an item that is not there is told."""
    made = parts([])
    made.register("buses", "two", lambda given: {"a": EventBus(), "b": EventBus()}, items="event.Bus")
    source = {**document(all={"kind": "buses", "impl": "two"}), "runtime": {"event_bus": "all/b"}}
    deployment = deploy(source, registry=made)
    assert deployment.event_bus is deployment.resources["all"]["b"]
    (issue,) = refused(changed(source, "runtime", to={"event_bus": "all/c"}), made).issues
    assert (issue.path, issue.message) == ("runtime.event_bus", "'all' has no item 'c'; items: a, b")


def test_a_registry_refuses_what_cannot_be_registered() -> None:
    """[GR-519] A taken pair, names that are none, and a factory that would have to be awaited."""
    made = ResourceRegistry.standard()

    async def later(given: ResourceInput) -> Any: ...

    with pytest.raises(ConfigError, match=r"agent\.Engine/graph is registered already"):
        made.register("agent.Engine", "graph", lambda given: None)
    with pytest.raises(ConfigError, match="the impl of a resource is a text"):
        made.register("x", "", lambda given: None)
    with pytest.raises(ConfigError, match="is async; make the value there"):
        made.register("x", "y", later)
