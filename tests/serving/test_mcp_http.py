"""A client's tools over MCP: both eras, with the official client."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client as McpClient
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client

from tests.serving.kit import PNG, Kit, client
from tests.serving.test_frame import calling, headers
from toolnexus import (
    Answer,
    Client,
    MediaPart,
    NameConflict,
    Request,
    Tool,
    ToolContext,
    pending,
    serve,
    tool,
)
from toolnexus.errors import UnknownNames
from toolnexus.testing import ScriptedModel

pytestmark = pytest.mark.anyio

WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA=="
ERAS = ("auto", "legacy")
both_eras = pytest.mark.parametrize("era", ERAS)
MCP = {"tools": {"question": False}, "agents": ["helper"], "token": "right-token"}
HEADERS = {"authorization": "Bearer right-token"}


class Served:
    """A server, and what its tools saw."""

    def __init__(self, url: str, kit: Kit, owner: Client) -> None:
        self.url = f"{url}/mcp"
        self.kit = kit
        self.owner = owner

    @asynccontextmanager
    async def caller(self, era: str, **options: Any) -> AsyncGenerator[McpClient]:
        async with asyncio.timeout(20), httpx2.AsyncClient(headers=HEADERS, timeout=20) as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with McpClient(transport, mode=era, read_timeout_seconds=20, **options) as caller:
                yield caller


@pytest.fixture(scope="module")
async def served() -> AsyncGenerator[Served]:
    kit = Kit()
    async with client(kit) as owner, serve(owner, mcp=MCP) as server:
        yield Served(server.url, kit, owner)


@pytest.fixture(autouse=True)
async def fresh(served: Served) -> AsyncGenerator[None]:
    served.kit.again()
    yield


def text(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


@both_eras
async def test_both_eras_list_and_call_the_same(served: Served, era: str) -> None:
    """[MCPS-01] Names, descriptions and schemas are those that a model gets; texts come back as they are."""
    async with served.caller(era) as caller:
        assert (caller.protocol_version == "2025-11-25") is (era == "legacy")
        tools = {tool.name: tool for tool in (await caller.list_tools()).tools}
        assert tools["add"].description == "Add two numbers."
        assert tools["add"].input_schema["required"] == ["a", "b"]
        done = await caller.call_tool("add", {"a": 1, "b": 2})
        assert (text(done), done.is_error) == ("3", False)


@both_eras
async def test_what_is_not_offered_cannot_be_called(served: Served, era: str) -> None:
    """[MCPS-02] Filtered, unknown, or an agent nobody chose: the same error, and nothing runs."""
    async with served.caller(era) as caller:
        names = [tool.name for tool in (await caller.list_tools()).tools]
        assert "question" not in names and "hidden" not in names and "helper" in names
        for name in ("question", "hidden", "nonsense"):
            with pytest.raises(MCPError) as refused:
                await caller.call_tool(name, {"questions": []})
            assert refused.value.code == types.INVALID_PARAMS
            assert f"unknown tool {name!r}" in str(refused.value)


@both_eras
async def test_half_a_character_breaks_no_answer(era: str) -> None:
    """[MCPS-19] In what a tool says, how it fails, what it asks and what is told of it."""

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        if arguments["what"] == "fail":
            raise ValueError("\ud800")
        if arguments["what"] == "ask" and ctx.answer is None:
            return pending(kind="approval", prompt="\ud800?")
        ctx.emit("\ud800", progress=1)
        return "said \ud800"

    async def yes(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert params.message == "\ufffd?"
        return types.ElicitResult(action="accept", content={})

    schema = {"properties": {"what": {"type": "string", "description": "\ud800"}}}
    odd = Tool("odd", "Odd \ud800.", schema, execute)
    endless = Tool("endless", "Endless.", {"properties": {"n": {"maximum": float("inf")}}}, execute)
    async with Client(model=ScriptedModel([]), builtins=False, tools=[odd, endless]) as owner:
        async with serve(owner, mcp=True) as server, asyncio.timeout(20):
            async with McpClient(f"{server.url}/mcp", mode=era, elicitation_callback=yes) as caller:
                (listed, _) = (await caller.list_tools()).tools
                assert listed.description == "Odd \ufffd." and "\ufffd" in str(listed.input_schema)
                for what, said in (("say", "said \ufffd"), ("ask", "said \ufffd"), ("fail", "\ufffd")):
                    assert said in text(await caller.call_tool("odd", {"what": what}))


async def test_a_session_that_nobody_uses_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """[MCPS-23] It holds nothing then, and its id is unknown; there are only so many."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    given = {"accept": "application/json, text/event-stream"}
    async with (
        asyncio.timeout(20),
        client(Kit()) as owner,
        httpx2.AsyncClient(headers=given, timeout=20) as http,
    ):
        monkeypatch.setattr("toolnexus.serving.mcp.http.MOST_SESSIONS", 2)
        async with serve(owner, mcp=True) as server:
            begun = [await http.post(f"{server.url}/mcp", json=body) for _ in range(3)]
            assert [response.status_code for response in begun] == [200, 200, 503]
        monkeypatch.setattr("toolnexus.serving.mcp.http.IDLE_SECONDS", 0.1)
        async with serve(owner, mcp=True) as server:
            before = asyncio.all_tasks()
            id = (await http.post(f"{server.url}/mcp", json=body)).headers["mcp-session-id"]
            while left := {task for task in asyncio.all_tasks() - before if "run_server" in repr(task)}:
                await asyncio.wait(left)
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            gone = await http.post(f"{server.url}/mcp", json=ping, headers={"mcp-session-id": id})
            assert gone.status_code == 404


async def test_rules_hold_as_they_do_for_a_model(served: Served) -> None:
    """[MCPS-03] What is denied is not offered, also not below an agent; a denied use is an error result."""
    async with served.caller("auto") as caller:
        with pytest.raises(MCPError, match="unknown tool 'secret'"):
            await caller.call_tool("secret", {})
        below = await caller.call_tool("helper", {"prompt": "call secret"})
        assert "unknown tool 'secret'" in text(below) and "top secret" not in text(below)
        denied = await caller.call_tool("pay", {"to": "mallory"})
        assert denied.is_error and text(denied).startswith("denied: 'pay' may not be called so")


async def test_wrong_arguments_and_failures_are_results_that_say_why(served: Served) -> None:
    """[MCPS-04] A line for each wrong field; the text of what a tool raised, and no trace of it."""
    async with served.caller("auto") as caller:
        wrong = await caller.call_tool("add", {"a": "x"})
        assert wrong.is_error and "- a:" in text(wrong) and "- b: required, but missing" in text(wrong)
        broken = await caller.call_tool("fail", {})
        assert broken.is_error and text(broken) == "'fail' failed: ValueError: no luck"
        long = text(await caller.call_tool("long", {}))
        assert "the full text is in a file of the server" in long and "toolnexus-" not in long


async def test_images_and_files_come_along(served: Served) -> None:
    """[MCPS-05] An image inline is image content, a reference a link."""
    async with served.caller("auto") as caller:
        blocks = (await caller.call_tool("picture", {})).content
        said, image, link = blocks
        assert isinstance(said, types.TextContent) and said.text == "a dot"
        assert isinstance(image, types.ImageContent) and (image.mime_type, image.data) == ("image/png", PNG)
        assert isinstance(link, types.ResourceLink) and str(link.uri) == "https://example.com/a.pdf"


async def test_sounds_and_files_that_no_model_takes_come_along() -> None:
    """[MCPS-05] A program gets what a model would read a note about; what is too much is named, not where
    it is."""

    @tool
    async def recording(count: int) -> list[MediaPart]:
        """Sound and its index."""
        sound = MediaPart("audio/wav", data=WAV)
        return [*[sound] * count, MediaPart("application/octet-stream", data="AAH/", name="index.bin")]

    async with Client(model=ScriptedModel([]), builtins=False, tools=[recording]) as owner:
        async with serve(owner, mcp={"tools": ["recording"]}) as server, asyncio.timeout(20):
            async with McpClient(f"{server.url}/mcp") as caller:
                sound, index = (await caller.call_tool("recording", {"count": 1})).content
                *_, last = (await caller.call_tool("recording", {"count": 30})).content
                said, *_ = (await caller.call_tool("recording", {"count": 30})).content
    assert isinstance(sound, types.AudioContent) and (sound.mime_type, sound.data) == ("audio/wav", WAV)
    assert isinstance(index, types.EmbeddedResource) and str(index.resource.uri) == "attachment:///index.bin"
    assert isinstance(last, types.AudioContent)
    assert isinstance(said, types.TextContent) and said.text.count("the file is a file of the server") == 11
    assert tempfile.gettempdir() not in said.text


@both_eras
async def test_a_form_may_have_lists_of_choices(era: str) -> None:
    """[MCPS-10] Which the protocol has beside plain values."""
    items: Any = {"type": "string", "enum": ["harbour", "castle"]}
    schema: Any = {"type": "object", "properties": {"sights": {"type": "array", "items": items}}}

    @tool
    async def tour(ctx: ToolContext) -> Any:
        """Show the town."""
        if ctx.answer is None:
            return pending(kind="input", prompt="what to see?", data={"schema": schema})
        return " and ".join(ctx.answer.data["sights"])

    async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams) and params.requested_schema == schema
        return types.ElicitResult(action="accept", content={"sights": ["castle", "harbour"]})

    async with Client(model=ScriptedModel([]), builtins=False, tools=[tour]) as owner:
        async with serve(owner, mcp={"tools": ["tour"]}) as server, asyncio.timeout(20):
            async with McpClient(f"{server.url}/mcp", mode=era, elicitation_callback=elicit) as caller:
                assert text(await caller.call_tool("tour", {})) == "castle and harbour"


@both_eras
async def test_progress_reaches_a_caller_who_asked_for_it(served: Served, era: str) -> None:
    """[MCPS-06] `ctx.emit` of a tool with its figures, and the turns of an agent, before the result."""
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with served.caller(era) as caller:
        await caller.call_tool("steps", {}, progress_callback=on_progress)
        assert seen == [(1, 2, "step 1"), (2, 2, "step 2")]
        seen.clear()
        await caller.call_tool("helper", {"prompt": "call steps"}, progress_callback=on_progress)
    told = [message for _, _, message in seen]
    assert told == ["helper started", "helper: turn 1", "step 1", "step 2", "helper: turn 2"]
    assert [figure for figure, _, _ in seen] == [1, 2, 3, 4, 5]


@both_eras
@pytest.mark.parametrize("tool", ["hang", "helper"])
async def test_a_cancel_stops_the_run_and_what_is_below_it(served: Served, era: str, tool: str) -> None:
    """[MCPS-07] The tool is cancelled, also below an agent; the session goes on."""
    arguments = {"prompt": "call hang"} if tool == "helper" else {}
    async with served.caller(era) as caller:
        waiting = asyncio.create_task(caller.call_tool(tool, arguments))
        await served.kit.started.wait()
        waiting.cancel()
        await served.kit.cancelled.wait()
        assert text(await caller.call_tool("add", {"a": 2, "b": 2})) == "4"


@both_eras
async def test_a_caller_that_is_gone_leaves_nothing_running(served: Served, era: str) -> None:
    """[MCPS-08] Nobody can get the result of a call whose connection is gone, so it is cancelled."""
    call: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "hang", "arguments": {}},
    }
    headers = {**HEADERS, "accept": "application/json, text/event-stream", "content-type": "application/json"}
    async with asyncio.timeout(20), httpx2.AsyncClient(headers=headers, timeout=20) as http:
        if era == "legacy":
            hello = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "t", "version": "1"},
                },
            }
            opened = await http.post(served.url, json=hello)
            http.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await http.post(served.url, json=note)).status_code == 202
        else:
            meta: dict[str, Any] = {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            call["params"]["_meta"] = meta
            http.headers.update(
                {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "hang"}
            )

        async def post() -> None:
            async with http.stream("POST", served.url, json=call) as response:
                await response.aread()

        waiting = asyncio.create_task(post())
        await served.kit.started.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        await served.kit.cancelled.wait()


@both_eras
async def test_changed_tools_are_told(served: Served, era: str) -> None:
    """[MCPS-09] Both eras hear of it once, and the new list is there; the same list is no news."""
    heard = asyncio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            heard.set()

    async with served.caller(era, message_handler=on_message) as caller:
        if era == "auto":
            async with caller.listen(tools_list_changed=True) as changes:
                served.kit.source.offer("fresh")
                async for _ in changes:
                    break
        else:
            while not heard.is_set():  # the stream that it is told on opens behind the handshake
                served.kit.source.offer()
                served.kit.source.offer("fresh")
                await asyncio.wait([asyncio.create_task(heard.wait())], timeout=0.05)
        names = [tool.name for tool in (await caller.list_tools(cache_mode="refresh")).tools]
        assert "fresh" in names and text(await caller.call_tool("fresh", {})) == "there"
        served.kit.source.offer()
        with pytest.raises(MCPError, match="unknown tool 'fresh'"):
            await caller.call_tool("fresh", {})


@both_eras
async def test_questions_are_put_to_a_caller_that_can_be_asked(served: Served, era: str) -> None:
    """[MCPS-10] An approval and a form as elicitations; the call goes on with the answer, or is declined."""
    asked: list[str] = []
    answers = iter(
        [
            types.ElicitResult(action="accept", content={}),
            types.ElicitResult(action="decline"),
            types.ElicitResult(action="accept", content={"city": "Oslo"}),
            types.ElicitResult(action="accept", content={}),
        ]
    )

    async def elicit(ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return next(answers)

    async with served.caller(era, elicitation_callback=elicit) as caller:
        assert text(await caller.call_tool("pay", {"to": "ann"})) == "paid ann"
        no = await caller.call_tool("pay", {"to": "bob"})
        assert no.is_error and text(no) == "declined: pay bob?"
        assert text(await caller.call_tool("city", {})) == "off to Oslo"
        below = await caller.call_tool("helper", {"prompt": "pay cid"})
        assert text(below) == "paid cid"
    assert asked == ["pay ann?", "pay bob?", "which city?", "pay cid?"]
    assert served.kit.paid == ["ann", "cid"]


async def test_a_caller_that_cannot_be_asked_reads_the_question(served: Served) -> None:
    """[MCPS-11] In an error that names the capability, with status 400, or in a result; nothing was done."""
    async with served.caller("legacy") as caller:
        result = await caller.call_tool("pay", {"to": "ann"})
        assert result.is_error and "pay ann?" in text(result)
    async with served.caller("auto") as caller:
        with pytest.raises(MCPError, match=r"pay ann\?") as refused:
            await caller.call_tool("pay", {"to": "ann"})
        assert refused.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
        assert refused.value.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}
    async with httpx2.AsyncClient(headers={**HEADERS, **headers("pay")}, timeout=20) as http:
        assert (await http.post(served.url, json=calling("pay", to="ann"))).status_code == 400
    assert served.kit.paid == []


async def test_an_answer_is_for_one_call_and_once(served: Served) -> None:
    """[MCPS-12] A requestState that is made up, used before, or of another call is refused."""
    async with served.caller("auto", elicitation_callback=_never) as caller:
        session = caller.session
        params: dict[str, Any] = {"name": "pay", "arguments": {"to": "ann"}}

        async def send(**more: Any) -> types.InputRequiredResult:
            request = types.CallToolRequest(params=types.CallToolRequestParams(**{**params, **more}))
            return await session.send_request(request, types.InputRequiredResult)

        first = await send()
        assert first.input_requests
        (id,) = first.input_requests
        responses = {id: types.ElicitResult(action="accept", content={})}
        for state in ("made up", None):
            again = {"request_state": state or first.request_state, "input_responses": responses}
            with pytest.raises(MCPError) as refused:
                await send(**again, **({} if state else {"arguments": {"to": "eve"}}))
            assert refused.value.code == types.INVALID_PARAMS
        assert served.kit.paid == []


async def _never(ctx: Any, params: Any) -> types.ElicitResult:
    raise AssertionError("the caller itself is not asked here")


async def test_an_answer_may_take_longer_than_the_deadline() -> None:
    """[MCPS-18] The clock stands still while the caller is asked; several answers keep their order."""
    questions = [{"question": "Size?", "options": ["s", "m"]}, {"question": "Colour?"}]

    async def elicit(ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        assert params.requested_schema["properties"]["answer_1"]["description"] == "Size? (s / m)"
        await asyncio.sleep(0.3)
        return types.ElicitResult(action="accept", content={"answer_2": "red", "answer_1": "m"})

    kit = Kit()
    async with client(kit) as owner, serve(owner, mcp=MCP | {"tools": None}, deadline=0.2) as server:
        async with Served(server.url, kit, owner).caller("legacy", elicitation_callback=elicit) as caller:
            assert text(await caller.call_tool("question", {"questions": questions})) == '["m", "red"]'


async def test_whoever_answers_for_the_client_comes_first() -> None:
    """[MCPS-13] With `on_request` no caller is asked."""
    kit = Kit()

    async def approve(request: Request) -> Answer:
        return Answer(id=request.id)

    async with client(kit, on_request=approve) as owner, serve(owner, mcp=MCP) as server:
        async with Served(server.url, kit, owner).caller("auto", elicitation_callback=_never) as caller:
            assert text(await caller.call_tool("pay", {"to": "ann"})) == "paid ann"


async def test_a_long_list_comes_in_pages() -> None:
    """[MCPS-14] Every tool once; a cursor that is none is an error."""
    kit = Kit()
    kit.source.offer(*[f"t{i:03}" for i in range(250)])
    async with client(kit) as owner, serve(owner, mcp=MCP) as server:
        async with Served(server.url, kit, owner).caller("auto") as caller:
            names, cursor = list[str](), None
            while True:
                page = await caller.list_tools(cursor=cursor)
                names += [tool.name for tool in page.tools]
                if (cursor := page.next_cursor) is None:
                    break
            assert len(page.tools) < 100 and len(names) == len(set(names)) == 250 + len(kit.tools) + 1
            for cursor in ("x", "-1", "9999"):
                with pytest.raises(MCPError, match="cursor"):
                    await caller.list_tools(cursor=cursor)


async def test_a_call_past_the_deadline_is_stopped() -> None:
    """[MCPS-15] The tool is cancelled, the caller reads why."""
    kit = Kit()
    async with client(kit) as owner, serve(owner, mcp=MCP, deadline=0.2) as server:
        async with Served(server.url, kit, owner).caller("auto") as caller:
            result = await caller.call_tool("hang", {})
            assert result.is_error and "passed the deadline of 0.2 seconds" in text(result)
            assert kit.cancelled.is_set()


async def test_our_own_client_uses_it(served: Served) -> None:
    """[MCPS-16] As any other server: its tools are there, under its name."""
    entry = {"url": served.url, "headers": HEADERS}
    kit = Kit()
    async with client(kit, mcp={"mcpServers": {"other": entry}}) as ours:
        result = await ours.toolkit.execute("other_add", {"a": 3, "b": 4})
        assert (result.output, result.is_error) == ("7", False)
        steps = await ours.toolkit.execute("other_helper", {"prompt": "hello"})
        assert steps.output == "helped with 'hello'"


async def test_a_wrong_choice_is_told_before_anything_is_served() -> None:
    """[MCPS-17] Agents and tools that do not exist, and two with one name."""
    kit = Kit()
    async with client(kit) as owner:
        with pytest.raises(UnknownNames, match=r"no 'helpr'.*did you mean 'helper'"):
            async with serve(owner, mcp={"agents": ["helpr"]}):
                pass
        with pytest.raises(UnknownNames, match=r"mcp.tools: there is no 'ad'"):
            async with serve(owner, mcp={"tools": ["ad"]}):
                pass
        kit.source.offer("helper")
        with pytest.raises(NameConflict, match="'helper'"):
            async with serve(owner, mcp={"agents": ["helper"]}):
                pass
