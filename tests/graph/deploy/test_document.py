"""The shape of a deployment document: what may stand in it, and how it says what may not."""

from pathlib import Path

import pytest
import yaml

from tests.graph.deploy.documents import GREET, chain, changed, refused, registry, run, write
from toolnexus import ConfigError
from toolnexus.graph import ErrorKind, deploy

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["deploy.yaml", "deploy.json", "deploy.toml"])
async def test_a_document_in_each_format_gives_agents_that_run(tmp_path: Path, name: str) -> None:
    """[GR-500] JSON, YAML and TOML are the same document."""
    import json

    data = yaml.safe_load(GREET)
    if name.endswith("json"):
        text = json.dumps(data)
    elif name.endswith("toml"):
        text = """
        [resources.greet]
        kind = "graph.NodeType"
        impl = "greeting"
        settings = {word = "hi"}
        [agents.asst.engine]
        kind = "agent.Engine"
        impl = "graph"
        deps = {"node_type.greet" = "greet"}
        [agents.asst.engine.settings.graph]
        name = "greeter"
        entry = "hello"
        nodes = [{id = "hello", type = "greet", config = {name = "${board:user}"}}]
        edges = [{from = "hello", to = "__end__"}]
        """
    else:
        text = GREET
    async with deploy(write(tmp_path, text, name), registry=registry()) as deployment:
        result = await run(deployment, {"user": "ada"})
    assert result.status == "done"
    assert result.output == {"user": "ada", "greeting": "hi ada"}
    assert result.path == ("asst",)


async def test_a_mapping_is_a_document(tmp_path: Path) -> None:
    """[GR-500] Plain data is deployed like a file; it has no folder unless one is given."""
    async with deploy(yaml.safe_load(GREET), registry=registry()) as deployment:
        assert (await run(deployment, {"user": "bo"})).output["greeting"] == "hi bo"
    document = changed(
        yaml.safe_load(GREET), "agents", "asst", "engine", "settings", "graph", to={"file": "g.yaml"}
    )
    assert "has no folder to lie in" in str(refused(document))
    write(tmp_path, "name: g\nentry: hello\nnodes: [{id: hello, type: greet, config: {name: x}}]", "g.yaml")
    async with deploy(document, registry=registry(), folder=tmp_path) as deployment:
        assert (await run(deployment, {})).output["greeting"] == "hi x"


def test_everything_wrong_with_the_shape_is_told_at_once_with_path_and_line(tmp_path: Path) -> None:
    """[GR-501] A key that is none names its place, its line, and the nearest that is one."""
    path = write(
        tmp_path,
        """
        version: v2
        resources:
          js: {kind: agent.ScriptRuntime, implementation: js}
        agents:
          a b:
            engine: {kind: agent.Engine, impl: graph, setings: {}}
            policy: {max_revise: -1, run_timeout: 10}
        runtime: {checkpoint_store: x}
        """,
    )
    error = refused(path)
    assert isinstance(error, ConfigError)
    assert error.kind is ErrorKind.VALIDATION
    assert str(error).startswith(f"{path} cannot be deployed:")
    found = {(issue.line, issue.path): issue.message for issue in error.issues}
    unknown = found[3, "resources.js.implementation"]
    assert unknown == "unknown key 'implementation'; allowed: kind, impl, deps, settings"
    assert found[3, "resources.js.impl"] == "it is missing"
    assert "did you mean 'settings'" in found[6, 'agents."a b".engine.setings']
    assert "greater than or equal to 0" in found[7, 'agents."a b".policy.max_revise']
    assert "write it with a unit" in found[7, 'agents."a b".policy.run_timeout']
    assert found[8, "runtime.event_bus"] == "it is missing"
    assert (1, "version") in found


def test_the_misprinted_key_of_agents_names_the_right_one() -> None:
    """[GR-501] `agent:` is no key; the error says `agents`."""
    error = refused({"agent": {}, "agents": chain("x")["agents"], "resources": {}})
    assert error.issues[0].path == "agent"
    assert "did you mean 'agents'" in error.issues[0].message


@pytest.mark.parametrize("name", ["a b", "a/b", "", "x" * 65, "1a"])
def test_names_are_names(name: str) -> None:
    """[GR-501] Resources and agents are called by letters, digits, `_` and `-`."""
    document = chain("greeting")
    document["agents"] = {name: document["agents"]["asst"]}
    assert "a name has letters, digits" in str(refused(document))


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("runtime", "sessions"), {"max_sessions": 4}, "Client(store="),
        (("runtime", "dynamic_catalog"), {}, "agents come from the document alone"),
        (("agents", "asst", "observe"), [], "subscribers of the event bus"),
        (("agents", "asst", "policy", "artifact_channels"), ["x"], "its last message"),
    ],
)
def test_what_has_no_meaning_here_is_refused_by_name(path: tuple[str, ...], value: object, says: str) -> None:
    """[GR-502] A key of other programs is told what there is instead, never taken in silence."""
    error = refused(changed(chain("greeting"), *path, to=value))
    found = next(issue for issue in error.issues if issue.path == ".".join(path))
    assert f"{path[-1]!r} is not supported" in found.message
    assert says in found.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1, 2]", "not a table with agents"),
        ("a: b: c", "mapping values are not allowed"),
        ("agents: {}\nagents: {}", "given twice"),
        ("resources: {}", "agents: it is missing"),
        ("agents: {}", "at least 1 item"),
        ("agents: {a: {engine: {kind: x, impl: graph}}}", "an engine has the kind 'agent.Engine'"),
        ("agents: {a: null}", "agents.a: it must be a table"),
        ("version: 1\nagents: {a: 1}", "version: Input should be 'v1'"),
        ('{"agents": {"a": 1}', "line 1 column 20"),
    ],
)
def test_what_is_no_document_says_why(tmp_path: Path, text: str, says: str) -> None:
    """[GR-501] A file that does not parse, or holds something else."""
    assert says in str(refused(write(tmp_path, text))), str(refused(write(tmp_path, text)))


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    """[GR-501] A path that leads nowhere, and a file that is too large."""
    assert "cannot be read: No such file" in str(refused(tmp_path / "none.yaml"))
    large = write(tmp_path, "a: " + "x" * (1 << 20), "large.yaml")
    assert "larger than" in str(refused(large))
