"""Streaming, events, hooks."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from toolnexus import (
    Agent,
    Client,
    ConfigError,
    FunctionModel,
    Hooks,
    Message,
    ModelError,
    ModelRequest,
    ModelResponse,
    OpenAIModel,
    RunContext,
    Stream,
    ToolContext,
    ToolResult,
    assistant,
    tool,
)
from toolnexus.core import events
from toolnexus.testing import call

pytestmark = pytest.mark.anyio


@tool
async def noop(x: int = 0) -> str:
    """Do nothing."""
    return f"ok {x}"


def one_call(request: ModelRequest) -> Message | str:
    return assistant("", call("noop", x=1)) if request.turn == 1 else "end"


async def test_a_stream_is_the_same_run_observed() -> None:
    """[EV-01] Typed events in order, numbered without a gap; the result afterwards."""
    async with Client(model=FunctionModel(one_call), builtins=False, tools=[noop]) as c:
        plain = await c.ask("go")
        async with c.stream("go") as stream:
            seen = [e async for e in stream]
        assert [e.type for e in seen] == [
            "run_started",
            "turn_started",
            "usage",
            "tool_call",
            "tool_result",
            "turn_started",
            "text",
            "usage",
            "done",
        ]
        assert [e.seq for e in seen] == list(range(1, 10))
        assert all(e.path == ("main",) and e.time > 0 for e in seen)
        assert stream.result.messages == plain.messages and stream.result.usage == plain.usage


class Whole:
    """A model that tells nothing before its answer is there."""

    name = "whole"

    async def generate(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(message=assistant(f"all of it, {request.messages[-1].text}"), stop="stop")

    async def aclose(self) -> None: ...


async def test_the_text_of_a_model_that_does_not_stream_is_one_delta() -> None:
    """[EV-01] As the hooks left it; an answer without text is none."""

    class Louder(Hooks):
        def after_model(self, ctx: RunContext, response: ModelResponse) -> ModelResponse:
            said = response.message.text
            return replace(response, message=assistant("" if "quiet" in said else said.upper()))

    async with Client(model=Whole(), builtins=False, hooks=[Louder()]) as c:
        for prompt, deltas in (("go", ["ALL OF IT, GO"]), ("quiet", [])):
            async with c.stream(prompt) as stream:
                seen = [e async for e in stream]
            assert [e.text for e in seen if isinstance(e, events.TextDelta)] == deltas


async def test_events_of_children_arrive_with_their_path() -> None:
    """[EV-02] Two children interleave; starts and ends all arrive; the parent names the call."""

    async def fn(request: ModelRequest) -> Message | str:
        if request.agent == "main" and request.turn == 1:
            tasks = [call("task", id=i, agent="x", prompt="p") for i in ("t1", "t2")]
            return assistant("", *tasks)
        await asyncio.sleep(0)
        return "ok"

    async with (
        Client(model=FunctionModel(fn), builtins=False, agents=[Agent(name="x")]) as c,
        c.stream("go") as stream,
    ):
        seen = [e async for e in stream]
    starts = [(e.path, e.child, e.call_id) for e in seen if isinstance(e, events.SubAgentStarted)]
    assert starts == [(("main",), ("main", "x.t1"), "t1"), (("main",), ("main", "x.t2"), "t2")]
    for kind in (events.RunStarted, events.RunFinished):
        paths = {e.path for e in seen if isinstance(e, kind)}
        assert paths == {("main",), ("main", "x.t1"), ("main", "x.t2")}
    runs = [e for e in seen if isinstance(e, (events.RunStarted, events.RunFinished))]
    assert [type(e).__name__ for e in runs[1:3]] == ["RunStarted", "RunStarted"]
    assert len([e for e in seen if isinstance(e, events.SubAgentFinished)]) == 2


async def test_leaving_early_stops_the_run_and_raises_nothing() -> None:
    """[EV-03] Children are cancelled; the result says what was done so far."""
    cancelled = asyncio.Event()

    async def fn(request: ModelRequest) -> Message | str:
        if request.agent == "main":
            return assistant("so far", call("task", agent="x", prompt="p"))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return ""

    async with Client(model=FunctionModel(fn), builtins=False, agents=[Agent(name="x")]) as c:
        async with asyncio.timeout(5), c.stream("go") as stream:
            async for event in stream:
                if isinstance(event, events.SubAgentStarted):
                    break
            with pytest.raises(RuntimeError, match="still under way"):
                _ = stream.result
        assert cancelled.is_set()
        assert stream.result.text == "so far" and stream.result.status == "incomplete"
        assert stream.result.usage.requests == 2


async def test_a_failed_run_raises_when_the_block_ends() -> None:
    """[EV-04] The events arrive first, then the error itself."""

    def fn(request: ModelRequest) -> str:
        raise ModelError("down")

    async with Client(model=FunctionModel(fn), builtins=False) as c:
        seen: list[str] = []
        with pytest.raises(ModelError, match="down"):
            async with c.stream("go") as stream:
                seen = [e.type async for e in stream]
        assert seen[-1] == "done"


async def test_a_slow_reader_loses_no_text() -> None:
    """[EV-05] 20,000 deltas of 8 runs: text exact, starts and ends whole, the queue stays small."""
    from toolnexus.runtime.outbox import Outbox

    outbox = Outbox()
    for n in range(8):
        outbox.put(events.RunStarted(path=(str(n),), agent="x"))
    for i in range(2500):
        for n in range(8):
            outbox.put(events.TextDelta(path=(str(n),), text=f"{i},"))
    for n in range(8):
        outbox.put(events.TurnStarted(path=(str(n),), turn=1, model="m"))
    outbox.close()
    got = [e async for e in outbox]
    assert len(got) < 300
    for n in range(8):
        mine = [e for e in got if e.path == (str(n),)]
        assert isinstance(mine[0], events.RunStarted) and isinstance(mine[-1], events.TurnStarted)
        text = "".join(e.text for e in mine if isinstance(e, events.TextDelta))
        assert text == "".join(f"{i}," for i in range(2500))


async def test_events_have_a_json_form() -> None:
    """[EV-06] The six that the public contract names, and `done` with status and usage."""
    async with Client(model=FunctionModel(one_call), builtins=False, tools=[noop]) as c:
        async with c.stream("go") as stream:
            lines = {e.type: e.to_json() async for e in stream}
    assert lines["text"]["delta"] == "end" and lines["text"]["path"] == ["main"]
    assert lines["tool_call"]["arguments"] == {"x": 1} and lines["tool_call"]["name"] == "noop"
    assert lines["tool_result"]["output"] == "ok 1" and lines["tool_result"]["isError"] is False
    assert lines["done"]["status"] == "done" and lines["done"]["usage"]["requests"] == 2
    assert lines["usage"]["usage"]["totalTokens"] > 0
    import json

    for line in lines.values():
        json.dumps(line)


async def test_hooks_change_a_run_in_order() -> None:
    """[EV-07] before_model, after_model, before_tool, after_tool; plain and async; in children too."""
    log: list[str] = []

    class Plain(Hooks):
        def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelRequest:
            log.append(f"before {'/'.join(ctx.path)}")
            return replace(request, system=request.system + "!")

        def after_tool(self, ctx: ToolContext, result: ToolResult) -> ToolResult:
            return replace(result, output=result.output + " (checked)")

    class Async:
        async def after_model(self, ctx: RunContext, response: ModelResponse) -> None:
            log.append(f"after {ctx.agent}")

        async def before_tool(self, ctx: ToolContext) -> Any:
            return {"x": 7} if ctx.tool.name == "noop" else None

    def fn(request: ModelRequest) -> Message | str:
        assert request.system.endswith("!")
        if request.agent == "main" and request.turn == 1:
            return assistant("", call("task", id="t", agent="x", prompt="p"))
        if request.agent == "x" and request.turn == 1:
            return assistant("", call("noop", x=1))
        return request.messages[-1].tool_results[0].output

    async with Client(
        model=FunctionModel(fn),
        builtins=False,
        tools=[noop],
        agents=[Agent(name="x")],
        hooks=[Plain(), Async()],
    ) as c:
        result = await c.ask("go")
    assert result.text == "ok 7 (checked) (checked)"
    child = ["before main/x.t", "after x"]
    assert log == ["before main", "after main", *child, *child, "before main", "after main"]
    child_call = result.sub_agents[0].messages[1].tool_calls[0]
    assert child_call.arguments == '{"x": 1}'  # the transcript keeps the model's own


async def test_a_hook_can_answer_instead_of_the_tool_and_fails_closed() -> None:
    """[EV-08] A result short-circuits; a raising hook refuses; neither runs the tool."""
    ran: list[int] = []

    @tool
    async def danger() -> str:
        """Danger."""
        ran.append(1)
        return "ran"

    class Deny:
        def before_tool(self, ctx: ToolContext) -> ToolResult:
            return ToolResult(output="denied by policy", is_error=True)

    class Broken:
        def before_tool(self, ctx: ToolContext) -> None:
            raise ValueError("policy file missing")

    def fn(request: ModelRequest) -> Message | str:
        return assistant("", call("danger")) if request.turn == 1 else "end"

    for hook, text in ((Deny(), "denied by policy"), (Broken(), "policy file missing")):
        async with Client(model=FunctionModel(fn), builtins=False, tools=[danger], hooks=[hook]) as c:
            result = await c.ask("go")
        answer = result.messages[2].tool_results[0]
        assert answer.is_error and text in answer.output
    assert ran == []


def test_an_object_that_hooks_nothing_is_refused() -> None:
    """[EV-09] A misspelt hook method is an error at build, not a silence."""

    class Misspelt:
        def before_tools(self, ctx: ToolContext) -> None: ...

    with pytest.raises(ConfigError, match="before_tool"):
        Client(hooks=[Misspelt()])


async def test_a_stream_that_failed_has_the_result_of_what_was_done() -> None:
    """[EV-04] Beside the error that the block raises."""

    def fails(request: ModelRequest) -> Message:
        if request.turn == 1:
            return assistant("", call("noop", x=1))
        raise ModelError("gone")

    async with Client(model=FunctionModel(fails), builtins=False, tools=[noop]) as c:
        streams: list[Stream] = []
        with pytest.raises(ModelError, match="gone") as caught:
            async with c.stream("go") as stream:
                streams.append(stream)
                async for _ in stream:
                    pass
    result = streams[0].result
    assert result is caught.value.result and (result.status, result.tool_calls) == ("error", 1)


async def test_progress_of_a_tool_is_an_event_of_its_call() -> None:
    """[EV-06] With the data that the tool gives; without a reader it is nothing."""

    @tool
    async def work(ctx: ToolContext) -> str:
        """Work, and say how far it is."""
        ctx.emit("half", done=1, of=2)
        return "worked"

    def once(request: ModelRequest) -> Message | str:
        return assistant("", call("work", id="w")) if request.turn == 1 else "end"

    async with Client(model=FunctionModel(once), builtins=False, tools=[work]) as c:
        async with c.stream("go") as stream:
            (told,) = [e async for e in stream if isinstance(e, events.ToolProgress)]
        assert (await c.ask("go")).text == "end"
    assert (told.path, told.call_id, told.message, told.data) == (
        ("main",),
        "w",
        "half",
        {"done": 1, "of": 2},
    )


@pytest.mark.parametrize("point", ["before_model", "after_model"])
async def test_a_hook_that_gives_something_else_is_named(point: str) -> None:
    """[EV-07] With what it gave and what it may give; the run fails, and what was claimed is free again."""
    wanted = "ModelRequest" if point == "before_model" else "ModelResponse"
    hook = type("Odd", (), {point: lambda self, ctx, value: "text"})()  # type: ignore[reportUnknownLambdaType]
    async with Client(model=FunctionModel(one_call), builtins=False, hooks=[hook], tools=[noop]) as c:
        with pytest.raises(
            TypeError, match=f"a {point} hook returned str; it may return a {wanted} or None"
        ) as caught:
            await c.ask("go")
    assert caught.value.result.usage.requests == (0 if point == "before_model" else 1)  # type: ignore[attr-defined]


async def test_the_first_words_do_not_wait_for_the_others_that_came_with_them() -> None:
    """[EV-10] Ten deltas come at once, and when the reader has the first, nine are still to be read."""
    read = 0

    class AtOnce:
        host, secrets = "here", ()

        async def post(self, path: str, body: bytes) -> dict[str, Any]:
            raise AssertionError("a stream was asked for")

        async def stream(self, path: str, body: bytes) -> AsyncGenerator[dict[str, Any]]:
            nonlocal read
            for word in range(10):
                read += 1
                yield {"choices": [{"delta": {"content": f"{word} "}}]}
            yield {"choices": [{"delta": {}, "finish_reason": "stop"}]}

        async def aclose(self) -> None:
            pass

    client = Client(model=OpenAIModel("m", wire=AtOnce()), builtins=False)
    async with client, asyncio.timeout(5), client.stream("go") as stream:
        texts = [(e.text, read) async for e in stream if isinstance(e, events.TextDelta)]
    assert texts[0] == ("0 ", 1)
    assert "".join([text for text, _ in texts]) == stream.result.text == "0 1 2 3 4 5 6 7 8 9 "
