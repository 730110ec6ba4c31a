"""Who says what scripts can reach: the standard surface, none, one's own, chained."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.graph.bindings.kit import RUNTIMES, built, run
from tests.observability.spans import tracing
from toolnexus import Client, ConfigError, graph
from toolnexus.graph.scripts import (
    Binding,
    BindingsProvider,
    Invocation,
    NoBindings,
    ScriptError,
    StandardBindings,
    chain,
)
from toolnexus.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Tokens:
    """A surface of one's own: functions, sync and async, and values."""

    def bind(self, invocation: Invocation) -> Sequence[Binding]:
        async def lookup(key: str) -> Any:
            return {"key": key, "node": invocation.ctx.node_id}

        def refuse() -> None:
            raise ScriptError("policy_denied", "not today")

        def crash() -> None:
            raise OSError("disk")

        def odd() -> Any:
            return object()

        def estimate(text: str) -> int:
            return len(text) // 4

        functions = {f.__name__: f for f in (estimate, lookup, refuse, crash, odd)}
        return [Binding("tokens", {**functions, "most": 4000, "names": ["a", "b"]})]


class Fixed:
    """Binds these names."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def bind(self, invocation: Invocation) -> Sequence[Binding]:
        return [Binding(name, {"x": 1}) for name in self._names]


USE = {
    "js": """
      var r = [tokens.estimate('12345678'), tokens.lookup('k'), tokens.most, tokens.names];
      try { tokens.refuse() } catch (e) { r.push(e.kind, e.message) }
      try { tokens.crash() } catch (e) { r.push(e.kind, e.message) }
      try { tokens.odd() } catch (e) { r.push(e.kind) }
      try { tokens.estimate() } catch (e) { r.push(e.kind) }
      board.setVar('r', r);
    """,
    "lua": """
      local r = {tokens.estimate('12345678'), tokens.lookup('k'), tokens.most, tokens.names}
      local _, e = pcall(tokens.refuse) r[5] = e.kind r[6] = e.message
      _, e = pcall(tokens.crash) r[7] = e.kind r[8] = e.message
      _, e = pcall(tokens.odd) r[9] = e.kind r[10] = 'validation'
      board.setVar('r', r)
    """,
}


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_a_host_binds_functions_and_values_of_its_own(scripts: Mapping[str, Any], runtime: str) -> None:
    """[GR-411] Python functions, sync and async, and JSON values; what they raise is catchable."""
    board = await run(scripts, runtime, USE[runtime], script_bindings=chain(StandardBindings(), Tokens()))
    assert board["r"] == [
        2,
        {"key": "k", "node": "s"},
        4000,
        ["a", "b"],
        "policy_denied",
        "not today",
        "internal",
        "tokens.crash failed: OSError: disk",
        "validation",
        "validation",
    ]


async def test_a_provider_replaces_the_surface(scripts: Mapping[str, Any]) -> None:
    """[GR-412] What a provider does not bind is not there, in scripts and in types that are scripts."""
    with pytest.raises(graph.GraphRunError, match="board is not defined"):
        await run(scripts, "js", "board.setVar('x', 1)", script_bindings=Tokens())
    registry = graph.Registry.standard(graph.Services(scripts=scripts, script_bindings=Tokens()))
    own = graph.Services(scripts=scripts)
    registry.script_type("mine", "board.setVar('x', tokens.most)", services=own)
    data = {"name": "g", "entry": "h", "nodes": [{"id": "h", "type": "mine"}]}
    with pytest.raises(graph.GraphRunError, match="board is not defined"):
        await graph.build(graph.GraphDefinition.from_data(data), registry).run()


async def test_types_with_services_of_their_own_have_the_surface_of_these(
    scripts: Mapping[str, Any], tmp_path: Any
) -> None:
    """[GR-413] Without a provider each type has the standard globals over its own services."""
    registry = graph.Registry.standard(graph.Services(scripts=scripts))
    source = "board.setVar('fs', typeof fs); board.setVar('tools', typeof tools)"
    registry.script_type("plain", source)
    registry.script_type("files", source, services=graph.Services(scripts=scripts, workspace=tmp_path))
    for type, found in (("plain", "undefined"), ("files", "object")):
        data = {"name": "g", "entry": "h", "nodes": [{"id": "h", "type": type}]}
        board = await graph.build(graph.GraphDefinition.from_data(data), registry).run()
        assert board.vars() == {"fs": found, "tools": "undefined"}


NOTHING = {
    "js": "if (globalThis.board || globalThis.runtime) throw 1; signal.error(config.x)",
    "lua": "if board or runtime then error('there') end signal.error(config.x)",
}


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_no_bindings_leave_only_signal_and_config(scripts: Mapping[str, Any], runtime: str) -> None:
    """[GR-414] `NoBindings`: scripts run with an empty scope."""
    with pytest.raises(graph.GraphRunError, match="x1"):
        await run(scripts, runtime, NOTHING[runtime], config={"x": "x1"}, script_bindings=NoBindings())


@pytest.mark.parametrize(
    ("provider", "told"),
    [
        (chain(StandardBindings(), Fixed("board")), "the global 'board' is bound twice"),
        (Fixed("a", "a"), "the global 'a' is bound twice"),
        (chain(StandardBindings(), Fixed("runtime")), "the global 'runtime' is bound twice"),
        (Fixed("tokens.estimate"), "no identifier"),
        (Fixed("$helper"), "no identifier"),
        (Fixed(""), "no identifier"),
        (Fixed("häi"), "no identifier"),
        (Fixed("var"), "a keyword"),
        (Fixed("end"), "a keyword"),
        (Fixed("undefined"), "a keyword"),
        (Fixed("config"), "every script has one of its own"),
        (Fixed("signal"), "every script has one of its own"),
    ],
)
async def test_names_that_no_script_could_use_fail_the_execution(
    scripts: Mapping[str, Any], provider: BindingsProvider, told: str
) -> None:
    """[GR-415] A name bound twice, a keyword of either language and what is no identifier are refused."""
    with pytest.raises(graph.GraphRunError, match=told) as wrong:
        await run(scripts, "js", "1", script_bindings=provider)
    assert wrong.value.kind == "validation"


def test_what_provides_nothing_is_refused_at_once() -> None:
    """[GR-419] Services take a provider, a sandbox and a folder, not just anything."""
    with pytest.raises(ConfigError, match="give a provider with a method bind"):
        graph.Services(script_bindings=Binding("x", {}))
    with pytest.raises(ConfigError, match="give a Sandbox"):
        graph.Services(sandbox="/tmp")
    with pytest.raises(ConfigError, match="folder of a workspace"):
        graph.Services(workspace="/no/such/folder")


async def test_callables_of_every_sort_can_be_bound(scripts: Mapping[str, Any]) -> None:
    """[GR-420] Objects that are called, partials, classes and functions of C; what is too much is dropped."""

    @dataclass
    class Adder:
        n: int

        def __call__(self, m: int) -> int:
            return self.n + m

    class Sorts:
        def bind(self, invocation: Invocation) -> Sequence[Binding]:
            made = {"add": Adder(1), "power": partial(pow, 2), "size": len, "text": str, "most": max}
            return [Binding("sorts", made)]

    calls = "sorts.add(1, 9), sorts.power(3), sorts.size([1]), sorts.text(5), sorts.most(1, 4)"
    source = f"board.setVar('r', [{calls}])"
    board = await run(scripts, "js", source, script_bindings=chain(StandardBindings(), Sorts()))
    assert board["r"] == [2, 8, 1, "5", 4]


class Plain:
    """Globals that are a function or a value themselves."""

    def bind(self, invocation: Invocation) -> Sequence[Binding]:
        async def db_query(sql: str, *values: Any) -> Any:
            if not sql:
                raise ScriptError("validation", "no sql")
            return [sql, *values]

        values = {"tenant": "acme", "limits": [1, 2], "nothing": None, "table": {"a": {"b": 1}}}
        return [Binding("db_query", db_query), *(Binding(name, value) for name, value in values.items())]


PLAIN = {
    "js": """
      var r = [db_query('select', 1, 2), tenant, limits, nothing, table.a.b];
      try { db_query('') } catch (e) { r.push(e.kind) }
      board.setVar('r', r);
    """,
    "lua": """
      local _, e = pcall(db_query, '')
      local r = {db_query('select', 1, 2), tenant, limits, nothing, table.a.b, e.kind}
      board.setVar('r', r)
    """,
}


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_a_global_may_be_a_function_or_a_value(scripts: Mapping[str, Any], runtime: str) -> None:
    """[GR-426] `Binding` takes a function or a JSON value as the global itself, too."""
    provider = chain(StandardBindings(), Plain())
    board = await run(scripts, runtime, PLAIN[runtime], script_bindings=provider)
    assert board["r"] == [["select", 1, 2], "acme", [1, 2], None, 1, "validation"]


async def test_late_bindings_see_what_was_bound(scripts: Mapping[str, Any]) -> None:
    """[GR-416] `bind_late` comes after every `bind` and is handed the globals so far, in a chain as well."""

    class Late:
        def bind(self, invocation: Invocation) -> Sequence[Binding]:
            return ()

        def bind_late(self, invocation: Invocation, env: Mapping[str, Binding]) -> Sequence[Binding]:
            return [Binding("surface", {"names": sorted(env)})]

    source = "board.setVar('names', surface.names)"
    board = await run(scripts, "js", source, script_bindings=chain(Late(), StandardBindings()))
    assert board["names"] == ["board", "expr", "host", "node", "parallel", "run", "stream"]


async def test_the_surface_of_an_execution_is_logged(
    scripts: Mapping[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """[GR-417] A debug line names the node and the globals of its script."""
    made = built(scripts, "js", "1", script_bindings=Tokens())
    with caplog.at_level(logging.DEBUG, "toolnexus.graph"):
        await made.run()
    lines = [r.getMessage() for r in caplog.records if "script bindings assembled" in r.getMessage()]
    assert lines == ["script bindings assembled: graph 'g', node 's' of type 'script': tokens"]


@pytest.mark.parametrize(("provider", "count", "source"), [(None, 8, "standard"), (Tokens(), 1, "engine")])
async def test_the_span_of_a_node_tells_the_surface(
    scripts: Mapping[str, Any], provider: BindingsProvider | None, count: int, source: str
) -> None:
    """[GR-418] Where a client traces, the span of the node has the number of globals, and whose."""
    made = built(scripts, "js", "1", script_bindings=provider)
    with tracing() as traced:
        async with Client(model=ScriptedModel()) as client:
            await client.run(made, {})
    span = traced.one("script s")
    assert traced.way(span) == ["invoke_agent g", "script s"]
    found = {k: v for k, v in (span.attributes or {}).items() if k.startswith("script.")}
    assert found == {"script.bindings.count": count, "script.bindings.source": source}
