"""Scripts of a deployment: runtimes, types of nodes, and what they can reach."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.graph.deploy.documents import chain, changed, refused, registry, run, write
from toolnexus.graph import ErrorKind, GraphRunError, NodeType, ResourceInput, ResourceRegistry, deploy
from toolnexus.graph.scripts.bindings import Binding
from toolnexus.graph.scripts.bindings import chain as chained
from toolnexus.graph.scripts.invocation import Invocation

pytestmark = pytest.mark.anyio


RUNTIME = {"kind": "agent.ScriptRuntime", "impl": "js", "settings": {"pool_size": 1}}


def scripted(
    *sources: str, runtime: str = "js", deps: Mapping[str, str] | None = None, **resources: Any
) -> dict[str, Any]:
    """A document whose agent runs these scripts, one after the other, on a runtime `rt`."""
    document = chain(*("n" for _ in sources))
    document["resources"] = {"rt": RUNTIME if runtime == "js" else {**RUNTIME, "impl": "lua"}, **resources}
    engine = document["agents"]["asst"]["engine"]
    engine["deps"] = {"script_runtime": "rt", **(deps or {})}
    if runtime != "js":
        engine["settings"]["script_runtime_name"] = runtime
    for node, source in zip(engine["settings"]["graph"]["nodes"], sources, strict=True):
        node.update(type="script", config={"runtime": runtime, "source": source})
    return document


async def output(
    document: dict[str, Any], made: ResourceRegistry | None = None, folder: Path | None = None, **vars: Any
) -> Any:
    """What a run gives."""
    async with (
        deploy(document, registry=made or registry(), folder=folder) as deployment,
        asyncio.timeout(20),
    ):
        return (await run(deployment, vars)).output


async def test_both_languages_run_with_the_settings_of_their_runtime() -> None:
    """[GR-520] `max_exec_time` cuts a script off, `max_call_stack_size` bounds the calls of JavaScript."""
    assert await output(scripted("board.setVar('x', 1 + 1)")) == {"x": 2}
    assert await output(scripted("board.setVar('x', 1 + 1)", runtime="lua")) == {"x": 2}
    for runtime, endless in (("js", "for(;;){}"), ("lua", "while true do end")):
        document = changed(
            scripted(endless, runtime=runtime), "resources", "rt", "settings", to={"max_exec_time": "50ms"}
        )
        with pytest.raises(GraphRunError) as failed:
            await output(document)
        assert failed.value.kind is ErrorKind.TIMEOUT
    deep = scripted("function f(n) { return n ? f(n - 1) : 0 } f(200); board.setVar('x', 1)")
    assert await output(deep) == {"x": 1}
    with pytest.raises(GraphRunError, match="n0"):
        await output(changed(deep, "resources", "rt", "settings", to={"max_call_stack_size": 50}))


@pytest.mark.parametrize(
    ("impl", "settings", "says"),
    [
        ("js", {"pool_size": 0}, "greater than 0"),
        ("js", {"max_exec_time": 30}, "write it with a unit"),
        ("js", {"max_call_stack_size": 0}, "greater than 0"),
        ("lua", {"max_call_stack_size": 512}, "unknown key 'max_call_stack_size'"),
        ("js", {"memory": 1}, "unknown key 'memory'; allowed: pool_size, max_exec_time, max_call_stack_size"),
        ("lua", {"max_exec_time": "-1s"}, "greater than or equal to 0"),
    ],
)
def test_settings_of_a_runtime_that_are_wrong(impl: str, settings: dict[str, Any], says: str) -> None:
    """[GR-520] Told at their key."""
    document = changed(
        scripted("1"),
        "resources",
        "rt",
        to={"kind": "agent.ScriptRuntime", "impl": impl, "settings": settings},
    )
    (issue,) = refused(document).issues
    assert issue.path == f"resources.rt.settings.{next(iter(settings))}"
    assert says in issue.message


class Meeting:
    """Bindings of a host: scripts that wait until so many of them are there."""

    def __init__(self, wanted: int) -> None:
        self.here = self.most = 0
        self._wanted = wanted
        self._complete = asyncio.Event()

    def bind(self, invocation: Invocation) -> list[Binding]:
        async def enter() -> None:
            self.here += 1
            self.most = max(self.most, self.here)
            if self.here == self._wanted:
                self._complete.set()
            await self._complete.wait()
            self.here -= 1

        return [Binding("meeting", {"enter": enter})]


async def test_the_size_of_the_pool_is_how_many_scripts_run_at_once() -> None:
    """[GR-520] With one, branches of a wave take turns."""
    for size in (1, 2):
        meeting = Meeting(size)
        made = registry()
        made.register("agent.ScriptBindings", "meeting", lambda given, meeting=meeting: meeting)
        document = scripted(
            "1",
            "meeting.enter()",
            deps={"script_bindings": "m"},
            m={"kind": "agent.ScriptBindings", "impl": "meeting"},
        )
        settings = document["agents"]["asst"]["engine"]["settings"]
        settings["build"] = {"parallel": {"enabled": True}}
        graph = settings["graph"]
        graph["nodes"].append({**graph["nodes"][1], "id": "n2"})
        graph["edges"] = [{"from": "n0", "to": id} for id in ("n1", "n2")]
        await output(changed(document, "resources", "rt", "settings", to={"pool_size": size}), made)
        assert meeting.most == size


GREET: dict[str, Any] = {
    "kind": "graph.NodeType",
    "impl": "script",
    "deps": {"script_runtime": "rt"},
    "settings": {
        "type": "greet",
        "source": 'board.setVar("greeting", "hi " + config.name)',
        "desc": "Says hi.",
        "writes": [{"kind": "var", "name": "greeting", "required": True}],
    },
}


def greeter(**settings: Any) -> dict[str, Any]:
    """A document with a type of nodes that is a script; its engine has no runtime of its own."""
    document = scripted("1", greet={**GREET, "settings": {**GREET["settings"], **settings}})
    engine = document["agents"]["asst"]["engine"]
    engine["deps"] = {"node_type.greet": "greet"}
    engine["settings"]["graph"]["nodes"][0].update(type="greet", config={"name": "${board:user}"})
    return document


async def test_a_type_of_nodes_can_be_a_script_with_deps_of_its_own(tmp_path: Path) -> None:
    """[GR-518] `config` of the node is its global; its roles are held; its source may be a file."""
    assert (await output(greeter(), user="ada"))["greeting"] == "hi ada"
    write(tmp_path, GREET["settings"]["source"], "greet.js")
    document = greeter(source={"file": "greet.js"})
    assert (await output(document, folder=tmp_path, user="bo"))["greeting"] == "hi bo"
    with pytest.raises(GraphRunError, match="did not write the variable 'greeting'"):
        await output(greeter(source="1"), user="ada")
    document = greeter(reads=[{"kind": "var", "config_key": "name", "required": True}])
    document["agents"]["asst"]["engine"]["settings"]["graph"]["nodes"][0]["config"] = {"name": "who"}
    with pytest.raises(GraphRunError, match="reads the variable 'who', which is not there"):
        await output(document)


def test_a_type_says_what_it_is_for() -> None:
    """[GR-518] `desc` is the description of the type."""
    assert deploy(greeter()).resources["greet"].description == "Says hi."


async def test_a_type_is_made_once_and_shared_by_agents() -> None:
    """[GR-518] Two agents use one resource, each with its own graph."""
    document = greeter()
    document["agents"]["other"] = document["agents"]["asst"]
    async with deploy(document) as deployment:
        results = [await run(deployment, {"user": name}, name) for name in ("asst", "other")]
    assert [result.output["greeting"] for result in results] == ["hi asst", "hi other"]


def test_types_that_clash_and_settings_that_are_wrong_are_refused() -> None:
    """[GR-518] With a built-in, with each other; roles with no name or two; an empty source."""
    taken = refused(greeter(type="script"))
    assert (taken.kind, taken.issues[0].path) == (
        ErrorKind.CONFLICT,
        'agents.asst.engine.deps."node_type.greet"',
    )
    document = greeter()
    document["resources"]["again"] = document["resources"]["greet"]
    document["agents"]["asst"]["engine"]["deps"]["node_type"] = "again"
    error = refused(document)
    assert (error.kind, error.issues[0].path) == (ErrorKind.CONFLICT, "agents.asst.engine.deps.node_type")
    for settings, path, says in (
        ({"writes": [{"kind": "var"}]}, "settings.writes[0]", "exactly one of name and config_key"),
        ({"reads": [{"name": "a", "config_key": "b"}]}, "settings.reads[0]", "exactly one of"),
        ({"reads": [{"kind": "channel", "name": "a"}]}, "settings.reads[0].kind", "'var' or 'messages'"),
        ({"source": " "}, "source", "needs a source that is not empty"),
        ({"source": {"file": "x.js"}}, "", "settings.source: the file 'x.js' has no folder"),
        ({"description": "x"}, "settings.description", "unknown key 'description'; allowed: type"),
    ):
        issues = refused(greeter(**settings)).issues
        where = f"resources.greet{'.' if path else ''}{path}"
        assert any(i.path == where and says in i.message for i in issues), (issues, path)


async def test_code_backed_types_are_resources_too() -> None:
    """[GR-518] A factory of the host gives a `NodeType`, with what it wired."""
    made = registry()

    def make(given: ResourceInput) -> NodeType:
        async def handler(ctx: Any, board: Any, config: Any) -> None:
            board["tools"] = [tool.name for tool in given.deps["tools"]()]

        return NodeType(name="lists", handler=handler)

    made.register("graph.NodeType", "lists", make, deps={"tools": "tool.Assembly"})
    made.register("graph.NodeType", "odd", lambda given: "greet")
    document = chain("lists")
    document["resources"]["src"] = {
        "kind": "tool.Source",
        "impl": "builtins",
        "settings": {"tools": ["read"]},
    }
    document["resources"]["tools"] = {"kind": "tool.Assembly", "impl": "memory", "deps": {"tool": "src"}}
    document["resources"]["lists"]["deps"] = {"tools": "tools"}
    assert await output(document, made) == {"tools": ["read"]}
    assert "graph.NodeType/odd gave str; graph.NodeType is a NodeType" in str(refused(chain("odd"), made))


NAMES = """
var names = [];
for (var g of ["board", "expr", "host", "run", "node", "tools", "inference", "stream", "parallel", "fs",
  "shell", "runtime", "config"]) if (typeof globalThis[g] !== "undefined") names.push(g);
"""
STANDARD = ["board", "expr", "host", "run", "node", "stream", "parallel", "runtime", "config"]


def standard(settings: dict[str, Any] | None = None, **deps: str) -> dict[str, Any]:
    """A resource of standard bindings."""
    return {"kind": "agent.ScriptBindings", "impl": "standard", "deps": deps, "settings": settings or {}}


def services(folder: Path) -> dict[str, Any]:
    """Tools, a workspace and a sandbox."""
    return {
        "src": {"kind": "tool.Source", "impl": "builtins", "settings": {"tools": ["read", "glob"]}},
        "tools": {"kind": "tool.Assembly", "impl": "memory", "deps": {"tool": "src"}},
        "ws": {"kind": "workspace.Workspace", "impl": "local", "settings": {"root": str(folder)}},
        "box": {
            "kind": "sandbox.Runner",
            "impl": "local",
            "settings": {"root": str(folder), "isolation": False},
        },
    }


async def test_without_a_provider_the_deps_of_the_engine_unlock_globals(tmp_path: Path) -> None:
    """[GR-521] Nothing wired: the standard ones; each service adds its own, and no tool may be called."""
    got = await output(scripted(f"{NAMES} board.setVar('x', names)"))
    assert sorted(got["x"]) == sorted(STANDARD)
    deps = {"tools": "tools", "workspace": "ws", "sandbox": "box"}
    source = f"{NAMES} board.setVar('x', names); board.setVar('t', tools.list())"
    got = await output(scripted(source, deps=deps, **services(tmp_path)))
    assert sorted(got["x"]) == sorted([*STANDARD, "tools", "fs", "shell"])
    assert got["t"] == []


async def test_a_provider_replaces_the_globals_of_all_scripts(tmp_path: Path) -> None:
    """[GR-521] The services of the engine add nothing to it, and a type of nodes has it, too; `none` is
    nothing at all."""
    own: dict[str, Any] = {"std": standard(workspace="ws"), **services(tmp_path)}
    source = f"{NAMES} board.setVar('x', names)"
    got = await output(scripted(source, deps={"script_bindings": "std", "tools": "tools"}, **own))
    assert sorted(got["x"]) == sorted([*STANDARD, "fs"])
    none: dict[str, Any] = {"none": {"kind": "agent.ScriptBindings", "impl": "none"}}
    source = f"{NAMES} if (names.length > 1) signal.error(names.join())"
    assert await output(scripted(source, deps={"script_bindings": "none"}, **none)) == {}
    document = greeter()
    document["resources"] |= none
    document["agents"]["asst"]["engine"]["deps"]["script_bindings"] = "none"
    with pytest.raises(GraphRunError, match="board is not defined"):
        await output(document, user="ada")


async def test_the_standard_bindings_carry_what_scripts_may_do(tmp_path: Path) -> None:
    """[GR-521] Which tools, how much to read and write, which commands; an empty list is none."""
    (tmp_path / "a.txt").write_text("0123456789")

    listed = "tools.list().sort()"
    read, write = "fs.read('a.txt')", "fs.write('b.txt', 'xx') || 'ok'"
    ran = "shell.exec('echo', 'hi').exit_code"
    cases: list[tuple[dict[str, Any], str, Any]] = [
        ({}, listed, []),
        ({"tools": {"allow": ["read"]}}, listed, ["read"]),
        ({"tools": {"allow": []}}, listed, []),
        ({"tools": {"allow_all": True}}, listed, ["glob", "read"]),
        ({"fs": {"max_read_bytes": 10}}, read, "0123456789"),
        ({"fs": {"max_read_bytes": 9}}, read, "validation"),
        ({"fs": {"max_write_bytes": 2}}, write, "ok"),
        ({"fs": {"max_write_bytes": 1}}, write, "validation"),
        ({}, ran, 0),
        ({"shell": {"allow": ["echo"]}}, ran, 0),
        ({"shell": {"allow": []}}, ran, -1),
    ]
    document = scripted("1", **services(tmp_path))
    for n, (settings, source, _) in enumerate(cases):
        surface = standard(settings, tools="tools", workspace="ws", sandbox="box")
        document["resources"][f"std{n}"] = surface
        code = f"var x; try {{ x = {source} }} catch (e) {{ x = e.kind }} board.setVar('x', x)"
        agent = scripted(code, deps={"script_bindings": f"std{n}"})["agents"]["asst"]
        document["agents"][f"a{n}"] = agent
    async with deploy(document) as deployment, asyncio.timeout(20):
        found = [(await run(deployment, {}, f"a{n}")).output["x"] for n in range(len(cases))]
    assert found == [expected for _, _, expected in cases]


@pytest.mark.parametrize(
    ("settings", "deps", "says"),
    [
        ({"tools": {"allow": []}}, {}, "settings.tools: the dep 'tools' is missing"),
        ({"fs": {"max_read_bytes": 1}}, {}, "settings.fs: the dep 'workspace' is missing"),
        ({"shell": {"allow": []}}, {}, "settings.shell: the dep 'sandbox' is missing"),
        ({"tools": {"allow": ["raed"]}}, {"tools": "tools"}, "there is no tool 'raed'; did you mean 'read'"),
        ({"tools": {"allow": ["read"], "allow_all": True}}, {"tools": "tools"}, "either allow"),
        ({"tools": {}}, {"tools": "tools"}, "either allow"),
        ({"fs": {"max_read_bytes": 0}}, {"workspace": "ws"}, "greater than 0"),
        ({"shell": {}}, {"sandbox": "box"}, "it is missing"),
        ({"files": {}}, {}, "unknown key 'files'; allowed: tools, fs, shell"),
    ],
)
def test_a_policy_that_cannot_hold_is_refused(
    settings: dict[str, Any], deps: dict[str, str], says: str, tmp_path: Path
) -> None:
    """[GR-521] A section without its dep, a tool that is not there, two ways at once."""
    document = scripted(
        "1", deps={"script_bindings": "std"}, std=standard(settings, **deps), **services(tmp_path)
    )
    (issue,) = refused(document).issues
    assert issue.path.startswith("resources.std")
    assert says in issue.message


class Tokens:
    """A provider of a host."""

    def bind(self, invocation: Invocation) -> list[Binding]:
        def estimate(text: str) -> int:
            return len(text) // 4

        def node_id() -> str:
            return invocation.ctx.node_id

        return [Binding("tokens", {"estimate": estimate, "nodeID": node_id})]


def tokens(given: ResourceInput) -> Any:
    base = given.deps.get("base")
    return Tokens() if base is None else chained(base, Tokens())


async def test_a_host_adds_globals_by_an_impl_of_its_own() -> None:
    """[GR-521] Alone it replaces the others; over a base both are there."""
    made = registry()
    made.register("agent.ScriptBindings", "tokens", tokens, deps={"base": "agent.ScriptBindings"})
    made.register("agent.ScriptBindings", "odd", lambda given: object())
    tok = {"kind": "agent.ScriptBindings", "impl": "tokens", "deps": {"base": "std"}}
    source = "board.setVar('x', tokens.estimate('0123456789abcdef') + ':' + tokens.nodeID())"
    document = scripted(source, deps={"script_bindings": "tok"}, std=standard(), tok=tok)
    assert await output(document, made) == {"x": "4:n0"}
    document["resources"]["tok"]["deps"] = {}
    with pytest.raises(GraphRunError, match="board is not defined"):
        await output(document, made)
    document["resources"]["tok"]["impl"] = "odd"
    assert "agent.ScriptBindings is an object with bind(invocation)" in str(refused(document, made))
