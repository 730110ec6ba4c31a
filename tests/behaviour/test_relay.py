"""Tools that the host runs: declared here, called by a model, answered from outside."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.warm import Warm
from toolnexus import (
    Agent,
    Answer,
    Client,
    ConfigError,
    Request,
    RunError,
    SqliteStore,
    ToolContext,
    pending,
    relay_tool,
    tool,
)
from toolnexus.core.events import Pending, ToolFinished, ToolStarted
from toolnexus.core.result import RunResult
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
OPEN = relay_tool("open_page", "Open a page in the browser of the user.", PLACE)
LOCATE = relay_tool("locate", "Where the user is.")
BOTH = [
    call("open_page", id="c1", place="home"),
    call("locate", id="c2"),
    call("open_page", id="c3", place=5),
]


def outputs(result: RunResult) -> list[tuple[bool, str]]:
    return [(part.is_error, part.output) for m in result.messages for part in m.tool_results]


def results(*given: Any) -> dict[str, Any]:
    return {"results": [{"id": id, "output": output} for id, output in given]}


def client(*turns: Any, **options: Any) -> Client:
    chosen: dict[str, Any] = {"tools": [OPEN, LOCATE], "builtins": False, **options}
    return Client(model=ScriptedModel(list(turns)), **chosen)


async def test_the_host_runs_the_calls_of_a_turn_as_one_question() -> None:
    """[RES-31] In call order, with checked input and JSON text; a wrong call is answered here; what the
    host gives is the result, text or JSON, error or not; each call has one start and one end."""
    asked: list[Request] = []

    async def on_request(request: Request) -> Answer:
        asked.append(request)
        error = {"id": "c2", "output": {"lost": True}, "isError": True}
        return Answer(id=request.id, data={"results": [error, {"id": "c1", "output": "opened"}]})

    async with client(reply("", *BOTH), "end", on_request=on_request) as c, c.stream("go") as stream:
        events = [event async for event in stream]
    (request,) = asked
    assert (request.kind, request.prompt) == ("tool_call", 'open_page with {"place": "home"}; locate with {}')
    assert request.data == {
        "calls": [
            {"id": "c1", "name": "open_page", "input": {"place": "home"}, "arguments": '{"place": "home"}'},
            {"id": "c2", "name": "locate", "input": {}, "arguments": "{}"},
        ],
        "path": ["main"],
    }
    opened, located, wrong = outputs(stream.result)
    assert opened == (False, "opened") and located == (True, '{"lost": true}')
    assert wrong[0] and "place" in wrong[1]
    assert [
        len([e for e in events if isinstance(e, kind)]) for kind in (ToolStarted, Pending, ToolFinished)
    ] == [
        3,
        1,
        3,
    ]


GO_ON = """
import asyncio, json, sys
from toolnexus import Client, SqliteStore, relay_tool
from toolnexus.testing import ScriptedModel

async def main():
    tools = [relay_tool("open_page", "x"), relay_tool("locate", "y")]
    async with Client(model=ScriptedModel(["end"]), builtins=False, tools=tools,
                      store=SqliteStore(sys.argv[1])) as client:
        (request,) = await client.conversation("c").pending()
        results = [{"id": e["id"], "output": e["name"] + " ran"} for e in request.data["calls"]]
        result = await client.resume("c", [{"id": request.id, "ok": True, "data": {"results": results}}])
        print(json.dumps([p.output for m in result.messages for p in m.tool_results]))

asyncio.run(main())
"""


async def test_another_interpreter_gives_the_results(warm: Warm, tmp_path: Path) -> None:
    """[RES-32] The calls of the turn that are finished stay; the results come with `client.resume`."""
    ran: list[str] = []

    @tool
    async def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    store = SqliteStore(tmp_path / "c.db")
    calls = [BOTH[0], call("look"), BOTH[1]]
    async with client(reply("", *calls), tools=[OPEN, LOCATE, look], store=store) as c:
        result = await c.ask("go", conversation="c")
    assert (result.status, len(result.pending), ran) == ("pending", 1, ["look"])
    done = await asyncio.to_thread(warm.run, GO_ON, str(tmp_path / "c.db"), strict=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["open_page ran", "seen", "locate ran"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, 'is {"results": '),
        ({"results": "x"}, 'is {"results": '),
        (results(("c1", "x")), "one result for each of the calls ['c1', 'c2'], not for ['c1']"),
        (results(("c1", "x"), ("c2", "y"), ("c9", "z")), "not for ['c1', 'c2', 'c9']"),
        (results(("c1", "x"), ("c1", "y")), "not for ['c1', 'c1']"),
        ({"results": ["c1", "c2"]}, "'c1' is no result of a call"),
        ({"results": [{"id": "c1"}, {"id": "c2", "output": ""}]}, "call 'c1' needs 'output'"),
        ({"results": [{"id": "c1", "output": "", "isError": 1}]}, "'isError' is true or false"),
        ({"results": [{"id": "c1", "output": "", "is_error": True}]}, "unknown keys ['is_error']"),
        (results(("c1", {1, 2}), ("c2", "")), "output of call 'c1' is no JSON value"),
    ],
)
async def test_results_that_do_not_fit_are_refused(data: Any, says: str) -> None:
    """[RES-33] Whole, with the reason, and the right ones can still be given; in place the model is told."""
    async with client(reply("", *BOTH[:2]), "end") as c:
        first = await c.ask("go")
        with pytest.raises(RunError, match="does not fit") as caught:
            await c.resume(first, [Answer(id=first.pending[0].id, data=data)])
        assert says in str(caught.value)
        right = results(("c2", "b"), ("c1", "a"))
        last = await c.resume(first, [Answer(id=first.pending[0].id, data=right)])
    assert outputs(last) == [(False, "a"), (False, "b")]

    def on_request(request: Request) -> Answer:
        return Answer(id=request.id, data=data)

    async with client(reply("", *BOTH[:2]), "end", on_request=on_request) as c:
        result = await c.ask("go")
    assert all(wrong and "nobody could answer" in text for wrong, text in outputs(result))


async def test_the_host_may_decline() -> None:
    """[RES-33] Then each of the calls is an error result, and the run goes on."""
    async with client(reply("", *BOTH[:2]), "end") as c:
        first = await c.ask("go")
        last = await c.resume(first, [Answer(id=first.pending[0].id, ok=False, reason="declined")])
    assert last.text == "end"
    assert [(wrong, text.split(":")[0]) for wrong, text in outputs(last)] == [(True, "declined")] * 2


async def test_rules_hooks_and_bounds_hold_for_relayed_calls() -> None:
    """[RES-34] A denied one is never asked, one that needs approval is asked apart, the host sees what a hook
    made of the input, and a long output is cut."""

    class Hook:
        def before_tool(self, ctx: ToolContext) -> dict[str, Any] | None:
            return {"place": ctx.arguments["place"].upper()} if ctx.tool.name == "open_page" else None

    rules = {"open_page(*EVIL*)": "deny", "locate": "ask"}
    calls = [
        call("open_page", id="c1", place="evil"),
        call("open_page", id="c2", place="a"),
        call("locate", id="c3"),
    ]
    async with client(reply("", *calls), "end", permissions=rules, hooks=[Hook()]) as c:
        first = await c.ask("go")
        relayed, approval = first.pending
        assert [entry["input"] for entry in (relayed.data or {})["calls"]] == [{"place": "A"}]
        assert approval.kind == "approval"
        second = await c.resume(first, [Answer(id=relayed.id, data=results(("c2", "x" * 200_000)))])
        second = await c.resume(second, [Answer(id=approval.id)])
        (third,) = second.pending
        last = await c.resume(second, [Answer(id=third.id, data=results(("c3", "Oslo")))])
    denied, long, located = outputs(last)
    assert denied[1].startswith("denied:") and len(long[1]) < 60_000 and located == (False, "Oslo")


async def test_results_are_for_the_very_calls() -> None:
    """[RES-34] A call that was edited after the question is refused, the others stand."""
    calls = [call("open_page", id="c1", place="a"), call("locate", id="c2")]
    async with client(reply("", *calls), "end") as c:
        first = await c.ask("go")
        text = json.dumps(first.snapshot)
        edited = text.replace('{\\"place\\": \\"a\\"}"', '{\\"place\\": \\"b\\"}"', 1)
        assert edited != text
        right = results(("c1", "x"), ("c2", "y"))
        last = await c.resume(json.loads(edited), [Answer(id=first.pending[0].id, data=right)])
    (refused, first_text), second = outputs(last)
    assert refused and first_text.startswith("refused:") and second == (False, "y")


async def test_a_handler_on_resume_is_asked_once_for_all_of_them() -> None:
    """[RES-31] Also from a sub-agent: the question names its path."""
    asked: list[Request] = []

    def on_request(request: Request) -> Answer:
        asked.append(request)
        return Answer(id=request.id, data=results(("c1", "a"), ("c2", "b")))

    agent = Agent(name="helper", description="Helps.", tools=["open_page", "locate"])
    options: dict[str, Any] = {"agents": [agent]}
    turns = [reply("", call("task", id="t", agent="helper", prompt="go")), reply("", *BOTH[:2])]
    async with client(*turns, **options) as c:
        first = await c.ask("go")
    assert len(first.pending) == 1
    async with client("helped", "end", on_request=on_request, **options) as c:
        last = await c.resume(first)
    assert (last.text, len(asked)) == ("end", 1)
    assert (asked[0].data or {})["path"] == ["main", "helper.t"]
    assert outputs(last.sub_agents[0]) == [(False, "a"), (False, "b")]


async def test_a_cancel_takes_the_question_back() -> None:
    """[RES-31] No call is left behind, and nothing waits for the handler."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def on_request(request: Request) -> Answer:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with client(reply("", *BOTH[:2]), on_request=on_request) as c:
        asking = asyncio.create_task(c.ask("go"))
        async with asyncio.timeout(10):
            await begun.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await ended.wait()


def test_a_relayed_tool_has_no_name_of_a_builtin() -> None:
    """[RES-35] Rules about the builtin read its arguments; here they would not."""
    with pytest.raises(ConfigError, match="relayed tool 'bash' has the name of a builtin"):
        relay_tool("bash", "Run a command on the machine of the user.")


@pytest.mark.parametrize("kind", ["approval", "tool_call"])
async def test_a_tool_that_asks_beside_relayed_calls_asks_for_itself(kind: str) -> None:
    """[RES-31] Its question does not wait for theirs, nor theirs for it, not even one of the same kind."""
    asked: list[Request] = []

    @tool
    async def deploy(ctx: ToolContext) -> Any:
        """Deploy."""
        calls: dict[str, Any] = {"calls": [{"id": "other", "name": "far", "input": {}, "arguments": "{}"}]}
        return pending(kind=kind, prompt="deploy?", data=calls) if ctx.answer is None else "deployed"

    async def on_request(request: Request) -> Answer:
        asked.append(request)
        ids = [entry["id"] for entry in (request.data or {})["calls"]]
        data = results(*[(id, {"c1": "opened", "c2": "here", "other": ""}[id]) for id in ids])
        return Answer(id=request.id, data=data)

    turn = reply("", BOTH[0], call("deploy", id="d"), BOTH[1])
    async with asyncio.timeout(5):
        async with client(turn, "end", tools=[OPEN, LOCATE, deploy], on_request=on_request) as c:
            result = await c.ask("go")
    assert sorted(request.prompt for request in asked) == [
        "deploy?",
        'open_page with {"place": "home"}; locate with {}',
    ]
    assert outputs(result) == [(False, "opened"), (False, "deployed"), (False, "here")]
