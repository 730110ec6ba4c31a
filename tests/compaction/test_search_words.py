"""What a search for tools finds, in which order, and what it says."""

from typing import Any

import pytest

from toolnexus import Client, Hooks, Tool, ToolContext, ToolResult
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


def far(name: str, about: str = "", *parameters: str, **options: Any) -> Tool:
    """A tool of a server."""

    async def execute(arguments: dict[str, Any], ctx: Any) -> str:
        return f"{name} done"

    schema: dict[str, Any] = {"type": "object", "properties": {each: {"title": "ö"} for each in parameters}}
    given: dict[str, Any] = {"source": "mcp", "origin": "s", **options}
    return Tool(name, about, schema, execute, **given)


async def searched(tools: list[Tool], *queries: str) -> tuple[list[list[str]], list[str], ScriptedModel]:
    """The names that each query finds, best first, and what the model reads."""
    calls = [call("tool_search", id=f"q{n}", query=query) for n, query in enumerate(queries)]
    model = ScriptedModel([reply(*calls), "end"])
    told: dict[str, Any] = {}

    class Seen(Hooks):
        async def after_tool(self, ctx: ToolContext, result: ToolResult) -> None:
            told[ctx.call_id] = result.metadata["tools"]

    async with Client(
        model=model, builtins=False, tools=tools, max_declared_tools=1, hooks=[Seen()]
    ) as client:
        await client.ask("go")
    found = [told[f"q{n}"] for n in range(len(queries))]
    outputs = [part.output for message in model.requests[1].messages for part in message.tool_results]
    return found, outputs, model


async def test_words_count_where_they_stand() -> None:
    """[CMP-47] More in a name than in a description, as much in a parameter; whole words more than
    beginnings; rare ones more than common ones."""
    tools = [
        far("alpha_one", "Paints walls."),
        far("paint_two", "Does things."),
        far("beta_three", "Does things.", "paint"),
        far("painting_four", "Does things."),
        far("gamma_five", "Nothing of that."),
    ]
    ((names, both, rare), _, _) = await searched(tools, "please paint", "paint things", "walls paint")
    assert names == ["paint_two", "painting_four", "beta_three"]
    assert both[:2] == ["paint_two", "painting_four"]
    assert rare[0] == "paint_two" and "alpha_one" in rare


async def test_names_that_begin_with_the_query_come_first() -> None:
    """[CMP-47] Whatever else has its words; in the name of the server's own, too."""
    tools = [
        far("x_list_rows", "List rows of a sheet, list rows, rows."),
        far("s_rows_list", "", original_name="rows_list"),
        far("rowsListAll", ""),
        far("other", "Something."),
    ]
    ((first, camel), _, _) = await searched(tools, "rows list", "rowsList")
    assert first == ["s_rows_list", "rowsListAll", "x_list_rows"] == camel


async def test_names_alone_give_just_these() -> None:
    """[CMP-47] Separated by blanks, commas, semicolons or quotes, in any case; with another word between them
    they are words like others."""
    tools = [far("Get_a", "Get it."), far("get_b", "Get it."), far("get_c", "Get it.", original_name="cee")]
    ((two, original, mixed), _, _) = await searched(tools, "'get_b'; \"GET_A\"", "`CEE`", "get_a now")
    assert two == ["Get_a", "get_b"] and original == ["get_c"]
    assert mixed[0] == "Get_a" and len(mixed) == 3


async def test_beginnings_have_three_letters() -> None:
    """[CMP-47] A shorter one is found as a whole word only."""
    tools = [far("orders_x", "Orders."), far("or_y", "Or."), far("zzz", "Nothing.")]
    ((short, long), _, _) = await searched(tools, "or not", "ord not")
    assert short == ["or_y"] and long == ["orders_x"]


async def test_what_hardly_fits_is_left_out() -> None:
    """[CMP-47] A tool with less than a third of the points of the best is none that was meant."""
    tools = [
        far("send_mail_message", "Send a mail message.", "mail", "message"),
        far("a_b", "Once about sending."),
        far("c_d", "A mail message."),
        *[far(f"n{n}", "Nothing.") for n in range(3)],
    ]
    ((found,), _, _) = await searched(tools, "send mail message")
    assert found == ["send_mail_message"]


async def test_the_answer_lists_ten_with_what_they_do() -> None:
    """[CMP-41] Descriptions in a line, the first 300 characters; how many more there are."""
    tools = [far(f"row_{n:02}", f"Row\n  {n}. " + "x" * 400) for n in range(12)] + [far("row_12")]
    ((found, none), (told, empty), model) = await searched(tools, "all row", "zzz qqq")
    lines = told.split("\n")
    assert len(found) == 10 and none == []
    assert lines[0].endswith(":") and lines[1] == "- row_00: " + ("Row 0. " + "x" * 400)[:300] + "…"
    assert [line.split(":")[0] for line in lines[1:11]] == [f"- {name}" for name in found]
    assert lines[11].startswith("3 more match") and len(lines) == 12
    assert "s (13)" in empty
    assert [tool.name for tool in model.requests[1].tools][1:] == found

    ((bare, exact), (line, whole), _) = await searched(
        [far("plain"), far("full", "y" * 300), far("third")], "plain", "full"
    )
    assert bare == ["plain"] and line.split("\n")[1:] == ["- plain"]
    assert exact == ["full"] and whole.split("\n")[1:] == ["- full: " + "y" * 300]


async def test_the_search_says_how_many_tools_are_where() -> None:
    """[CMP-41] The first thirty places by name, then how many more; the words of the search are asked for."""
    for places, more in ((30, False), (32, True)):
        tools = [far(f"t{n:02}", origin=f"p{n:02}") for n in range(places)] + [far("lone", origin=None)]
        _, _, model = await searched(tools[:places], "t00")
        (search,) = [tool for tool in model.requests[0].tools if tool.name == "tool_search"]
        assert f"there are {places} more, of p00 (1), p01 (1)" in search.description
        assert (
            ("p29 (1), 2 more places." in search.description) == more == ("more places" in search.description)
        )
        assert "at most 10, " in search.description and search.source == "builtin"
        (about,) = search.input_schema["properties"].items()
        assert (
            about[0] == "query"
            and about[1]["type"] == "string"
            and "names of tools" in about[1]["description"]
        )
        assert search.input_schema["required"] == ["query"]
        assert search.input_schema["additionalProperties"] is False
    _, _, model = await searched([far("lone", origin=None), far("other", origin=None)], "lone")
    assert "there are 2 more, of mcp (2)" in model.requests[0].tools[0].description


async def test_a_tool_that_was_not_found_yet_says_how_it_is_called() -> None:
    """[CMP-42] Its line and its schema, as the model would read them."""
    tools = [far("draw_size", "Zeichnet.", "size"), far("other")]
    model = ScriptedModel([reply(call("draw_size")), reply(call("draw_siz")), "end"])
    async with Client(model=model, builtins=False, tools=tools, max_declared_tools=1) as client:
        await client.ask("go")
    (first,), (_, second) = (
        [part.output for message in request.messages for part in message.tool_results]
        for request in model.requests[1:]
    )
    lines = first.split("\n")
    assert lines[1] == "- draw_size: Zeichnet." and '"size": {"title": "ö"}' in lines[2]
    assert "1 more" in second or "2 more that tool_search finds" in second
    assert "did you mean 'draw_size'" in second


async def test_each_place_has_its_worth() -> None:
    """[CMP-47] A word in a parameter or description counts three, its beginning two and one; a third of the
    best is enough; a word that few tools have counts for more."""
    tools = [
        far("a", "Painting."),
        far("b", "Does things.", "painted"),
        far("c", "To paint."),
        far("d", "Does things.", "paint"),
        far("e", "Nothing."),
    ]
    ((order,), _, _) = await searched(tools, "paint please")
    assert order == ["c", "d", "b", "a"]
    tools += [far("paints", "Nothing."), far("paint_it", "Nothing.")]
    ((order,), _, _) = await searched(tools, "some paint please")
    assert order == ["paint_it", "paints", "c", "d"]
    common = [far(f"n{n}", "A common thing.") for n in range(4)]
    ((order,), _, _) = await searched([*common, far("r", "A rare thing.")], "common or rare")
    assert order[0] == "r" and len(order) == 5


async def declared(tools: list[Tool], most: int) -> tuple[list[str], list[str]]:
    """The names of what is declared, and of what is deferred."""
    model = ScriptedModel(["end"])
    async with Client(model=model, builtins=False, tools=tools, max_declared_tools=most) as client:
        await client.ask("go")
    names = [tool.name for tool in model.requests[0].tools]
    return names, [tool.name for tool in tools if tool.name not in names]


async def test_what_is_declared_is_counted_exactly() -> None:
    """[CMP-45] As many as may be declared are; with one more, builtins, skills and agents stay, then the
    host's own as long as there is room, and what is far goes."""
    near = [far(f"own{n}", source="native") for n in range(3)]
    assert await declared([far("x"), far("y")], 2) == (["x", "y"], [])
    assert await declared([far("x"), far("y")], 1) == (["tool_search"], ["x", "y"])
    kinds: Any = ("builtin", "skill", "agent")
    few = [far(f"{kind}_tool", source=kind) for kind in kinds]
    names, rest = await declared([near[0], *few, *near[1:], far("x"), far("y", source="http")], 4)
    assert names == ["own0", "builtin_tool", "skill_tool", "agent_tool", "tool_search"]
    assert rest == ["own1", "own2", "x", "y"]
    assert (await declared([*few, *near], 3))[1] == ["own0", "own1", "own2"]
    model = ScriptedModel(["end"])
    async with Client(
        model=model, builtins=False, tools=[far("x"), far("y")], max_declared_tools=1
    ) as client:
        await client.ask("go")
    assert model.requests[0].tools[0].input_schema["properties"]["query"]["minLength"] == 1
