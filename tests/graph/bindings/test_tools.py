"""`tools` in scripts: what may be called, and how calls go."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.graph.bindings.kit import RUNTIMES, built, run
from toolnexus import Answer, Budget, Client, ConfigError, Tool, ToolResult, graph
from toolnexus.core.messages import MediaPart
from toolnexus.core.tools import pending
from toolnexus.graph.scripts import StandardBindings
from toolnexus.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Catalog:
    """Three tools, and what was called of them, with the ids of the calls."""

    def __init__(self) -> None:
        self.called: list[tuple[str, str, Any]] = []
        schema = {"type": "object", "properties": {"q": {"type": "string"}}}
        self.tools = [
            Tool(name, f"The tool {name}.", schema, self._of(name)) for name in ("search", "look", "rm")
        ]
        self.services = graph.Services(toolkit=self.tools)

    def _of(self, name: str) -> Any:
        async def execute(arguments: dict[str, Any], ctx: Any) -> Any:
            self.called.append((name, ctx.call_id, arguments))
            if name == "look":
                image = MediaPart("image/png", data="iVBORw0KGgo=")
                return ToolResult(output="seen", parts=(image,))
            if name == "rm":
                raise RuntimeError("it is gone")
            return f"found {arguments.get('q', 'nothing')}"

        return execute

    def letting(self, *names: str, every: bool = False) -> StandardBindings:
        return StandardBindings(self.services, tools=every or names)


CALL = {
    "js": """
      board.setVar('one', tools.call('search', '{"q": "go"}'));
      board.setVar('all', tools.callAll([{name: 'search', id: 'm1', arguments: '{"q": "a"}'},
                                         {name: 'rm', id: 'm2'}, {name: 'look', id: 'm3'}]));
      board.setVar('names', tools.list()); board.setVar('definitions', tools.definitions());
    """,
    "lua": """
      board.setVar('one', tools.call('search', '{"q": "go"}'))
      board.setVar('all', tools.callAll({{name = 'search', id = 'm1', arguments = '{"q": "a"}'},
                                         {name = 'rm', id = 'm2'}, {name = 'look', id = 'm3'}}))
      board.setVar('names', tools.list()) board.setVar('definitions', tools.definitions())
    """,
}


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_allowed_tools_are_called_with_the_ids_of_the_script(
    scripts: Mapping[str, Any], runtime: str
) -> None:
    """[GR-280] Results are parts, in call order; ids are kept; denied calls fail in their place."""
    catalog = Catalog()
    board = await run(scripts, runtime, CALL[runtime], script_bindings=catalog.letting("search", "look"))
    one, (first, denied, last) = board["one"], board["all"]
    assert one.pop("tool_call_id")
    assert one == {"parts": [{"type": "text", "text": "found go"}], "is_error": False, "name": "search"}
    assert first == {
        "parts": [{"type": "text", "text": "found a"}],
        "is_error": False,
        "tool_call_id": "m1",
        "name": "search",
    }
    assert denied["is_error"] and denied["tool_call_id"] == "m2" and denied["name"] == "rm"
    assert denied["parts"][0]["text"] == "the tool 'rm' is not allowed for this script; allowed: search, look"
    assert [part["type"] for part in last["parts"]] == ["text", "image"]
    assert [(name, id) for name, id, _ in catalog.called[1:]] == [("search", "m1"), ("look", "m3")]
    assert board["names"] == ["search", "look"]
    assert board["definitions"][0] == {
        "name": "search",
        "description": "The tool search.",
        "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}},
    }


async def test_no_tool_may_be_called_unless_somebody_says_so(scripts: Mapping[str, Any]) -> None:
    """[GR-281] The surface over the services of a node, and an empty list, let scripts call nothing."""
    catalog = Catalog()
    source = "board.setVar('r', tools.call('search').is_error); board.setVar('l', tools.list())"
    wired: list[dict[str, Any]] = [{"toolkit": catalog.tools}, {"script_bindings": catalog.letting()}]
    for services in wired:
        board = await run(scripts, "js", source, **services)
        assert board.vars() == {"r": True, "l": []}
    assert catalog.called == []


async def test_failures_are_results(scripts: Mapping[str, Any]) -> None:
    """[GR-282] A tool that fails, that nobody knows or that gets no JSON gives a result with `is_error`."""
    catalog = Catalog()
    source = """
      var bad = {name: 'search', arguments: '{oops'}, same = {name: 'rm', id: 'a'};
      var r = tools.callAll([{name: 'rm'}, {name: 'ghost'}, bad, {name: 'search'}]);
      board.setVar('r', r.map(x => x.is_error));
      try { tools.callAll([same, same]) } catch (e) { board.setVar('twice', e.kind) }
      try { tools.callAll([{tool: 'rm'}]) } catch (e) { board.setVar('shape', e.kind) }
      board.setVar('none', tools.callAll([]));
    """
    board = await run(scripts, "js", source, script_bindings=catalog.letting(every=True))
    assert board.vars() == {
        "r": [True, True, True, False],
        "twice": "validation",
        "shape": "validation",
        "none": [],
    }


async def test_an_id_that_is_used_again_is_a_call_of_its_own(scripts: Mapping[str, Any]) -> None:
    """[GR-283] Models number their calls anew in every turn: the second call with an id runs, too."""
    catalog = Catalog()
    source = """
      var a = tools.callAll([{name: 'search', id: 'c1', arguments: '{"q": "a"}'}]);
      var b = tools.callAll([{name: 'search', id: 'c1', arguments: '{"q": "b"}'}]);
      board.setVar('r', [a[0].parts[0].text, b[0].parts[0].text]);
    """
    board = await run(scripts, "js", source, script_bindings=catalog.letting(every=True))
    assert board["r"] == ["found a", "found b"]


async def test_rules_hooks_and_limits_of_the_run_hold(scripts: Mapping[str, Any]) -> None:
    """[GR-284] Calls of scripts go the way of all calls: rules, hooks and limits see them."""
    catalog = Catalog()
    source = "board.setVar('r', tools.callAll([{name: 'search'}, {name: 'rm'}]).map(x => x.parts[0].text))"
    made = built(scripts, "js", source, script_bindings=catalog.letting(every=True))
    seen: list[str] = []

    class Watch:
        def before_tool(self, ctx: Any) -> None:
            seen.append(ctx.tool.name)

    async with Client(model=ScriptedModel(), hooks=[Watch()], permissions={"rm": "deny"}) as client:
        result = await client.run(made, {})
    found, denied = result.output["r"]
    assert found == "found nothing"
    assert "unknown tool 'rm'" in denied
    assert seen == ["search"]
    assert [name for name, _, _ in catalog.called] == ["search"]
    async with Client(model=ScriptedModel(), budget=Budget(tool_calls=1)) as client:
        result = await client.run(made, {})
    assert (result.status, result.limit) == ("incomplete", "tool_calls")


async def test_a_tool_that_asks_lets_the_run_wait_and_go_on(scripts: Mapping[str, Any]) -> None:
    """[GR-285] The question of a tool suspends the run; resumed, what ended before is not called again."""
    called: list[str] = []

    async def count(arguments: dict[str, Any], ctx: Any) -> str:
        called.append("count")
        return "1"

    async def confirm(arguments: dict[str, Any], ctx: Any) -> Any:
        called.append("confirm")
        return pending(kind="confirm", prompt="sure?") if ctx.answer is None else f"said {ctx.answer.data}"

    kit = [Tool(f.__name__, "A tool.", {"type": "object"}, f) for f in (count, confirm)]
    services = graph.Services(toolkit=kit)
    source = "tools.call('count'); board.setVar('r', tools.call('confirm').parts[0].text)"
    made = built(scripts, "js", source, script_bindings=StandardBindings(services, tools=True))
    async with Client(model=ScriptedModel()) as client:
        asked = await client.run(made, {})
        assert (asked.status, asked.pending[0].prompt) == ("pending", "sure?")
    again = built(scripts, "js", source, script_bindings=StandardBindings(services, tools=True))
    async with Client(model=ScriptedModel()) as client:
        done = await client.resume(asked, [Answer(id=asked.pending[0].id, data="yes")], target=again)
    assert done.output["r"] == "said yes"
    assert called == ["count", "confirm", "confirm"]


def test_options_of_the_standard_surface_are_checked(tmp_path: Any) -> None:
    """[GR-286] An option without its service, a tool that there is none of, and a wrong cap are errors."""
    services = Catalog().services
    with pytest.raises(ConfigError, match="no tool 'serch'; did you mean 'search'"):
        StandardBindings(services, tools=["serch"])
    with pytest.raises(ConfigError, match="options for tools, and no tools"):
        StandardBindings(graph.Services(), tools=[])
    with pytest.raises(ConfigError, match="options for workspace"):
        StandardBindings(services, max_read_bytes=10)
    with pytest.raises(ConfigError, match="options for sandbox"):
        StandardBindings(services, shell=["ls"])
    with pytest.raises(ConfigError, match="max_write_bytes=0 must be 1 or more"):
        StandardBindings(graph.Services(workspace=tmp_path), max_write_bytes=0)
