"""Very many tools: most are not declared, and the model finds them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.loop.support import PATIENCE, Stage, Way, bench, each_style, sent, task, use
from tests.models.test_types import accepted
from toolnexus import (
    Agent,
    Client,
    ConfigError,
    FunctionModel,
    MemoryStore,
    Message,
    ModelRequest,
    Tool,
    assistant,
    compactor,
    tool,
)
from toolnexus.core.events import ToolFinished
from toolnexus.testing import ScriptedModel, Turn, call, reply

pytestmark = pytest.mark.anyio

SERVERS = ("github", "jira", "mail", "sheets", "shop")
VERBS = ("create", "delete", "list", "read", "update", "close", "search", "move", "copy", "export")
NOUNS = ("issue", "board", "message", "row", "order", "label", "user", "file", "comment", "report")


class Server:
    """A source of many tools, like an MCP server; its tools can change while it is open."""

    def __init__(self, name: str, tools: Sequence[Tool]) -> None:
        self._name, self._tools = name, list(tools)
        self._changed: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        return self._name

    @property
    def tools(self) -> Sequence[Tool]:
        return self._tools

    async def open(self, on_change: Callable[[], None]) -> None:
        self._changed = on_change

    async def aclose(self) -> None:
        pass

    def change(self, tools: Sequence[Tool]) -> None:
        self._tools = list(tools)
        self._changed()


def far(server: str, verb: str, noun: str) -> Tool:
    async def execute(arguments: dict[str, Any], ctx: Any) -> str:
        return f"{verb} {noun} done: {arguments}"

    schema = {
        "type": "object",
        "properties": {f"{noun}_id": {"type": "integer"}, "reason": {"type": "string"}},
        "required": [f"{noun}_id"],
        "additionalProperties": False,
    }
    about = f"{verb.capitalize()} one {noun} of {server}, whatever state it is in."
    name = f"{server}_{verb}_{noun}"
    return Tool(name, about, schema, execute, source="mcp", origin=server, original_name=f"{verb}_{noun}")


def five_hundred() -> list[Server]:
    return [Server(s, [far(s, verb, noun) for verb in VERBS for noun in NOUNS]) for s in SERVERS]


@tool
async def here(x: int = 0) -> str:
    """A function of the host."""
    return "here"


@asynccontextmanager
async def large(model: Any, **options: Any) -> AsyncGenerator[Client]:
    given: dict[str, Any] = {
        "builtins": False,
        "tools": [here, *five_hundred()],
        "max_declared_tools": 20,
        **options,
    }
    async with asyncio.timeout(PATIENCE), Client(model=model, **given) as client:
        assert len(client.toolkit) >= 501
        yield client


def names(request: ModelRequest) -> list[str]:
    return [t.name for t in request.tools]


def outputs(request: ModelRequest) -> list[str]:
    return [r.output for m in request.messages for r in m.tool_results]


@each_style
async def test_what_is_found_can_be_called(way: Way) -> None:
    """[CMP-40] [CMP-41] Of five hundred tools the first request declares the host's own and `tool_search`;
    what a search finds is declared behind them in every later request, whose beginning stays as it was."""
    turns = [
        Turn(calls=[use("tool_search", {"query": "close an issue in jira"}, "s1")]),
        Turn(calls=[use("jira_close_issue", {"issue_id": 7}, "c1")]),
        Turn(calls=[use("tool_search", {"query": "github_export_report"}, "s2")]),
        Turn(text="closed"),
    ]
    options: dict[str, Any] = {"tools": [here, *five_hundred()], "max_declared_tools": 20}
    async with bench(way, {"main": turns}, **options) as b:
        result = await b.ask("close 7")
        assert (result.status, result.text) == ("done", "closed")
        first, second, third, fourth = b.sent()
        assert first.tools == ["here", "tool_search"]
        assert second.tools[:3] == ["here", "tool_search", "jira_close_issue"] and len(second.tools) <= 12
        assert third.tools == second.tools
        assert fourth.tools == [*third.tools, "github_export_report"]
        assert third.results[-1].text == "close issue done: {'issue_id': 7}"
        assert fourth.results[-1].text.count("\n- ") == 1
        assert b.endpoint.requests[1].raw.count(b"Close one issue of jira") == 2, "found and declared"
        for seen in b.endpoint.requests:
            accepted(way.style, False, seen.body)
        about = [t for t in b.endpoint.requests[0].body["tools"] if "tool_search" in str(t)]
        assert "500 more" in str(about) and "github (100), jira (100)" in str(about)


async def test_the_loaded_tools_stay_the_same_object() -> None:
    """[CMP-41] While a run finds nothing new its tools are one object, so they are encoded once."""
    seen: list[int] = []

    def model(request: ModelRequest) -> Message | str:
        seen.append(id(request.tools))
        if request.turn == 1:
            return assistant("", call("tool_search", query="close jira issue", id="s"))
        if request.turn < 6:
            return assistant("", call("here", x=request.turn, id=f"h{request.turn}"))
        return "end"

    async with large(FunctionModel(model)) as client:
        await client.ask("go")
        await client.ask("go")
    assert len(set(seen[1:6])) == 1 and seen[0] == seen[6] != seen[1]


@each_style
async def test_a_tool_that_was_not_found_yet_answers_with_its_schema(way: Way) -> None:
    """[CMP-42] A call of a tool that is not loaded is answered with how to call it, runs nothing, and the
    tool is there from the next request on. A name that does not exist is unknown, the nearest is named."""
    turns = [
        Turn(calls=[use("mail_read_message", {"id": 1}, "a"), use("mail_reed_message", {}, "b")]),
        Turn(calls=[use("mail_read_message", {"message_id": 1}, "c")]),
        Turn(text="read"),
    ]
    options: dict[str, Any] = {"tools": [here, *five_hundred()], "max_declared_tools": 20}
    async with bench(way, {"main": turns}, **options) as b:
        result = await b.ask("read it")
        second, third = b.sent()[1:]
        answer, unknown = second.results
        assert "message_id" in answer.text and "call it again" in answer.text and "done" not in answer.text
        assert "did you mean 'mail_read_message'" in unknown.text and "500 more" in unknown.text
        assert second.tools == ["here", "tool_search", "mail_read_message"]
        assert third.results[-1].text.startswith("read message done") and result.tool_calls == 1


async def test_every_run_finds_for_itself() -> None:
    """[CMP-43] What one run has found is not declared in another, at the same time or later; a conversation
    goes on with what was called in it."""
    model = ScriptedModel(
        [
            reply(call("tool_search", query="jira_close_issue")),
            reply(call("jira_close_issue", issue_id=1)),
            "one",
            "two",
            "three",
        ]
    )
    async with large(model, store=MemoryStore()) as client:
        await client.ask("go", conversation="t")
        await client.ask("go")
        await client.ask("and?", conversation="t")
    assert names(model.requests[2])[-1] == "jira_close_issue"
    assert names(model.requests[3]) == ["here", "tool_search"]
    assert names(model.requests[4]) == ["here", "tool_search", "jira_close_issue"]


async def test_filters_and_denials_hold() -> None:
    """[CMP-44] A search finds only what the agent may use, at every depth; a denied name is unknown."""
    find = reply(
        call("tool_search", query="close issue", id="s"), call("jira_close_issue", issue_id=1, id="c")
    )
    model = ScriptedModel(
        by_path={
            "main": [
                reply(call("task", agent="narrow", prompt="x"), call("task", agent="denied", prompt="x")),
                "end",
            ],
            "main/narrow.*": [find, "narrow done"],
            "main/denied.*": [
                find,
                reply(call("task", agent="below", prompt="x")),
                "denied done",
            ],
            "main/denied.*/below.*": [find, "below done"],
        }
    )
    agents = [
        Agent(name="narrow", tools=["github_*"]),
        Agent(name="denied", tools={"mcp": {"jira": False}}),
        Agent(name="below"),
    ]
    async with large(model, agents=agents) as client:
        await client.ask("go")
    for request in model.requests:
        if request.path[-1].startswith("narrow"):
            assert all(n.startswith(("github_", "tool_search", "task")) for n in names(request))
        if len(request.path) > 1 and request.turn == 2 and not request.path[-1].startswith("main"):
            searched, called = outputs(request)[:2]
            assert "github_close_issue" in searched and "jira" not in searched
            assert "unknown tool 'jira_close_issue'" in called


async def test_a_small_set_is_declared_whole() -> None:
    """[CMP-45] With no more tools than the number, and without the option, everything is declared; so it is
    for an agent whose own filter leaves few. `task`, skills and builtins are always declared."""
    model = ScriptedModel(["a", "b", reply(call("task", agent="few", prompt="x")), "few done", "c"])
    few = Agent(name="few", tools=["jira_close_*"])
    async with large(model, max_declared_tools=501) as client:
        await client.ask("go")
    async with large(model, max_declared_tools=None) as client:
        await client.ask("go")
    assert [len(r.tools) for r in model.requests] == [501, 501]
    async with large(model, agents=[few], builtins=["read"], max_declared_tools=10) as client:
        await client.ask("go")
    assert names(model.requests[2]) == ["read", "here", "task", "tool_search"]
    assert [r.path[-1][:3] for r in model.requests[3:4]] == ["few"]
    assert len(names(model.requests[3])) == 10 and "tool_search" not in names(model.requests[3])


async def test_of_many_functions_the_first_are_declared() -> None:
    """[CMP-45] The host's own tools are declared in their order as long as there is room."""
    model = ScriptedModel(["a"])
    mine = [far("own", "do", f"thing{n}") for n in range(30)]
    for one in mine:
        one.source = "native"
    async with Client(model=model, builtins=False, tools=mine, max_declared_tools=5) as client:
        await client.ask("go")
    assert names(model.requests[0]) == [*[t.name for t in mine[:5]], "tool_search"]


async def test_what_is_always_declared_needs_no_search() -> None:
    """[CMP-45] More builtins than the number, and nothing beside them: there is nothing to find."""
    model = ScriptedModel(["a", "b"])
    async with Client(model=model, builtins=["read", "write", "edit"], max_declared_tools=2) as client:
        await client.ask("go")
    assert names(model.requests[0]) == ["edit", "read", "write"]
    few = [far("shop", "list", noun) for noun in NOUNS[:2]]
    async with Client(model=model, builtins=["read", "write"], tools=few, max_declared_tools=3) as client:
        await client.ask("go")
    assert names(model.requests[1]) == ["read", "write", "tool_search"]


async def test_a_long_description_is_told_by_its_beginning() -> None:
    """[CMP-41] One line for each tool that was found; one without a description is its name alone."""
    long, bare = far("shop", "list", "order"), far("shop", "list", "invoice")
    long.description, bare.description = "Lists\n  all orders. " + "x" * 2_000, ""
    model = ScriptedModel([reply(call("tool_search", query="list")), "end"])
    async with Client(model=model, builtins=False, tools=[long, bare], max_declared_tools=1) as client:
        await client.ask("go")
    (told,) = outputs(model.requests[1])
    (line,) = [line for line in told.splitlines() if line.startswith("- shop_list_order: ")]
    assert line.startswith("- shop_list_order: Lists all orders. xxx") and line.endswith("x…")
    assert len(line) < 400 and "- shop_list_invoice" in told.splitlines()


async def test_tools_that_a_server_changes_are_found() -> None:
    """[CMP-46] After a change the next request knows: what came can be found, what went is unknown, what was
    found and is still there stays."""
    server = Server("shop", [far("shop", verb, noun) for verb in VERBS for noun in NOUNS])

    @tool
    async def change() -> str:
        """Change what the server has."""
        kept = [t for t in server.tools if t.name != "shop_read_order"]
        server.change([*kept, far("shop", "paint", "wall")])
        return "changed"

    model = ScriptedModel(
        [
            reply(call("tool_search", query="shop_read_order shop_list_order")),
            reply(call("change")),
            reply(
                call("shop_read_order", order_id=1, id="r"), call("tool_search", query="paint a wall", id="s")
            ),
            "end",
        ]
    )
    async with Client(model=model, builtins=False, tools=[change, server], max_declared_tools=5) as client:
        await client.ask("go")
    assert names(model.requests[1])[2:] == ["shop_list_order", "shop_read_order"]
    assert names(model.requests[2])[2:] == ["shop_list_order"]
    assert "unknown tool 'shop_read_order'" in outputs(model.requests[3])[-2]
    assert names(model.requests[3])[2:] == ["shop_list_order", "shop_paint_wall"]


QUERIES = [
    ("jira_close_issue", ["jira_close_issue"]),
    ("jira_close_issue, mail_read_message", ["jira_close_issue", "mail_read_message"]),
    ("close_issue", [f"{s}_close_issue" for s in SERVERS]),
    ("JIRA close issue", ["jira_close_issue"]),
    ("close an issue in jira", ["jira_close_issue"]),
    ("closing issues on github", ["github_issue"]),
    ("orderId", ["order"]),
    ("sheets export rows", ["sheets_export_row"]),
]


@pytest.mark.parametrize(("query", "first"), QUERIES)
async def test_the_ranking_is_the_same_every_time(query: str, first: list[str]) -> None:
    """[CMP-47] Names that are written out stand alone; then come names that begin so, then words of names,
    parameters and descriptions; the same query gives the same order."""
    model = ScriptedModel([reply(call("tool_search", query=query)), "end"] * 2)
    async with large(model) as client:
        results = [await client.ask("go") for _ in range(2)]
    told = [r.messages[2].tool_results[0].output for r in results]
    assert told[0] == told[1]
    found = names(model.requests[1])[2:]
    assert 1 <= len(found) <= 10
    if all("_" in name for name in first) and not query.startswith("closing"):
        assert found[: len(first)] == sorted(first, key=found.index)
    else:
        assert all(part in found[0] for part in first[0].split("_"))


async def test_nothing_found_is_no_error_and_says_what_there_is() -> None:
    """[CMP-47] Words that fit nothing are answered with the places there are; blank ones too."""
    model = ScriptedModel(
        [reply(call("tool_search", query="zzz qqq")), reply(call("tool_search", query=" , ")), "end"]
    )
    async with large(model) as client:
        result = await client.ask("go")
    first, second = outputs(model.requests[2])
    assert "no tool matches 'zzz qqq'" in first and "jira (100)" in first and "no tool matches" in second
    assert names(model.requests[2]) == ["here", "tool_search"] and result.status == "done"


async def test_a_tool_of_that_name_keeps_it() -> None:
    """[CMP-48] When a tool is called `tool_search` already, ours takes another name."""

    @tool
    async def tool_search(q: str) -> str:
        """Search for screwdrivers."""
        return "screwdrivers"

    model = ScriptedModel(
        [reply(call("tool_search", q="x"), call("tool_search_", query="close jira issue")), "end"]
    )
    async with large(model, tools=[tool_search, *five_hundred()]) as client:
        await client.ask("go")
    assert outputs(model.requests[1])[0] == "screwdrivers" and "jira_close_issue" in names(model.requests[1])


async def test_found_tools_outlive_a_compaction() -> None:
    """[CMP-43] What was found stays declared when the search itself is no longer sent."""

    def model(request: ModelRequest) -> Message | str:
        if request.turn == 1:
            return assistant("", call("tool_search", query="jira_close_issue", id="s"))
        if request.turn < 30:
            return assistant("", call("here", x=request.turn, id=f"h{request.turn}"))
        assert "jira_close_issue" in names(request) and "jira_close_issue" not in str(outputs(request))
        return "end"

    hook = compactor(200, summarize=lambda m: "notes")
    async with large(FunctionModel(model), hooks=[hook], max_turns=40) as client:
        assert (await client.ask("go")).text == "end"


async def test_children_search_for_themselves() -> None:
    """[CMP-43] In a run below the same holds, with its own findings."""
    way = Way("openai")
    turns = {
        "main": [Turn(calls=[task("helper", "x")]), Turn(text="end")],
        "small": [Turn(calls=[use("tool_search", {"query": "jira_close_issue"})]), Turn(text="found")],
    }
    stage = Stage(turns)
    async with stage, large(way.model(stage), agents=[Agent(name="helper", model="small")]) as client:
        await client.ask("go")
    assert sent(stage, "small")[-1].tools[-1] == "jira_close_issue"
    assert sent(stage, "main")[-1].tools == ["here", "task", "tool_search"]


def test_the_number_is_checked() -> None:
    """[CMP-40] `max_declared_tools` is a whole number, 0 or more, or None."""
    for wrong in (-1, True, "many"):
        with pytest.raises(ConfigError, match="max_declared_tools"):
            Client(model=ScriptedModel(), max_declared_tools=wrong)  # type: ignore[arg-type]


async def test_more_than_the_most_are_counted() -> None:
    """[CMP-41] A search that fits many shows ten, says how many more there are, and tells them as data."""
    many = [far("shop", "list", f"noun{n}") for n in range(25)]
    model = ScriptedModel(
        [
            reply(call("tool_search", query="list")),
            reply(
                call("tool_search", query="zz"),
            ),
            "end",
        ]
    )
    async with Client(model=model, builtins=False, tools=many, max_declared_tools=1) as client:
        async with client.stream("go") as stream:
            results = [e.result async for e in stream if isinstance(e, ToolFinished)]
    lines = results[0].output.splitlines()
    assert lines[-1] == "15 more match; say more precisely what is to be done." and len(lines) == 12
    assert results[0].metadata["tools"] == [line[2:].split(":")[0] for line in lines[1:-1]]
    assert (results[1].metadata["tools"], results[1].is_error) == ([], False)
