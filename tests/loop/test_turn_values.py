"""What a turn makes of a reply: ids of calls, estimates, hooks that give nonsense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from toolnexus import (
    Budget,
    Client,
    FunctionModel,
    Hooks,
    ModelContextError,
    ModelRequest,
    RunContext,
    ToolCallPart,
    ToolContext,
    ToolProgress,
    UsageReported,
    assistant,
    tool,
)
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


@tool
async def look(x: int = 0) -> str:
    """Look."""
    return "seen"


async def ids_of(*turns: Sequence[str]) -> list[list[str]]:
    """The ids that calls get which come with these ids, by turn."""
    model = FunctionModel(
        lambda request: (
            assistant("", *[ToolCallPart(id, "look", "{}") for id in turns[request.turn - 1]])
            if request.turn <= len(turns)
            else "end"
        )
    )
    async with Client(model=model, builtins=False, tools=[look]) as client:
        result = await client.ask("go")
    assert all(
        [part.call_id for part in after.tool_results] == [part.id for part in before.tool_calls]
        for before, after in zip(result.messages, result.messages[1:], strict=False)
        if before.tool_calls
    )
    return [[part.id for part in message.tool_calls] for message in result.messages if message.tool_calls]


async def test_every_call_has_an_id_of_its_own() -> None:
    """[RUN-13] Those that are fine stay; missing and repeated ones are numbered, over turns, too."""
    assert await ids_of(["a", "b"], ["c"]) == [["a", "b"], ["c"]]
    assert await ids_of(["", ""], ["", "a"]) == [["call", "call~2"], ["call~3", "a"]]
    assert await ids_of(["a", "a", "a"], ["a"]) == [["a", "a~2", "a~3"], ["a~4"]]
    assert await ids_of(["a~2", "a", "a"]) == [["a~2", "a", "a~3"]]
    assert await ids_of(["a", "a"], ["a~2"]) == [["a", "a~2"], ["a~2~2"]]


async def test_ids_have_at_most_forty_characters() -> None:
    """[RUN-13] Longer ones keep their beginning; what differs stays different, and the same stays so."""
    fits, long, other = "f" * 40, "l" * 41, "l" * 42
    ((first, second, third),) = await ids_of([fits, long, other])
    assert first == fits and second != third
    assert second[:24] == third[:24] == "l" * 23 + "_" and len(second) == len(third) == 40
    assert await ids_of([long]) == [[second]]
    ((_, again),) = await ids_of([fits, fits])
    assert again == "f" * 38 + "~2"
    ((odd,),) = await ids_of(["\ud800" * 41])
    assert len(odd) == 40


async def test_what_no_endpoint_counted_is_estimated_by_its_characters() -> None:
    """[ODD-07] Four are a token: the system prompt, texts, calls and results."""
    answers = [reply("t" * 8, call("look", id="c", x=12345), usage=None), reply("e" * 20, usage=None)]
    model = ScriptedModel(answers)
    async with Client(model=model, builtins=False, tools=[look]) as client:
        async with client.stream("p" * 40) as stream:
            used = [event.usage async for event in stream if isinstance(event, UsageReported)]
    sizes = [(len(request.system), len("p" * 40)) for request in model.requests]
    said = 8 + len("look") + len('{"x": 12345}')
    assert [(u.prompt_tokens, u.completion_tokens, u.estimated) for u in used] == [
        ((sizes[0][0] + 40) // 4, said // 4, True),
        ((sizes[1][0] + 40 + said + len("seen")) // 4, 20 // 4, True),
    ]
    assert stream.result.usage.prompt_tokens == sum(u.prompt_tokens for u in used)


async def test_a_shortened_request_is_counted_as_it_is() -> None:
    """[ODD-07] A hook that sends another transcript changes what was used."""

    class Shorter(Hooks):
        async def before_model(self, ctx: RunContext, request: ModelRequest) -> ModelRequest | None:
            if request.turn == 1:
                return None
            return replace(request, messages=[*request.messages[:1], *request.messages[1:][-2:]][:2])

    model = ScriptedModel(
        [reply("", call("look", id=f"c{n}"), usage=None) for n in range(2)] + [reply("e", usage=None)]
    )
    async with Client(model=model, builtins=False, tools=[look], hooks=[Shorter()]) as client:
        async with client.stream("p" * 400) as stream:
            used = [event.usage.prompt_tokens async for event in stream if isinstance(event, UsageReported)]
    size = len(model.requests[0].system)
    assert used == [(size + 400) // 4, (size + 400 + len("look{}")) // 4, (size + 400 + len("look{}")) // 4]


@pytest.mark.parametrize("point", ["before_model", "after_model"])
async def test_a_hook_that_returns_nonsense_is_named(point: str) -> None:
    """[EV-07] By its point, what it gave and what it may give."""

    class Odd(Hooks):
        pass

    async def odd(ctx: RunContext, value: Any) -> Any:
        return 7

    hook = Odd()
    setattr(hook, point, odd)
    async with Client(model=FunctionModel(lambda request: "end"), builtins=False, hooks=[hook]) as client:
        with pytest.raises(Exception) as caught:
            await client.ask("go")
    wanted = "ModelRequest" if point == "before_model" else "ModelResponse"
    assert f"a {point} hook returned int; it may return a {wanted} or None" in str(caught.value)


async def test_a_second_refusal_as_too_long_ends_there() -> None:
    """[CMP-23] The nearest hook that shortens is asked, and no other after it; each request is claimed."""
    asked: list[str] = []

    class Shorter(Hooks):
        def __init__(self, name: str) -> None:
            self.name = name

        async def on_overflow(
            self, ctx: RunContext, request: ModelRequest, error: ModelContextError
        ) -> ModelRequest | None:
            asked.append(self.name)
            return request

    sent: list[int] = []

    async def model(request: ModelRequest) -> str:
        sent.append(request.turn)
        raise ModelContextError("too long", status=400, window=len(sent))

    hooks = [Shorter("outer"), Shorter("inner")]
    async with Client(model=FunctionModel(model), builtins=False, hooks=hooks) as client:
        with pytest.raises(ModelContextError) as caught:
            await client.ask("go")
    assert asked == ["inner"] and sent == [1, 1] and caught.value.window == 2
    sent.clear()
    async with Client(
        model=FunctionModel(model), builtins=False, hooks=hooks, budget=Budget(requests=1)
    ) as client:
        result = await client.ask("go")
    assert (result.status, result.limit, sent) == ("incomplete", "requests", [1])


async def test_a_tool_tells_how_far_it_is() -> None:
    """[EV-06] With its path and call, in words and data, as often as it likes; also as JSON."""

    @tool
    async def work(ctx: ToolContext) -> str:
        """Work."""
        ctx.emit("half", done=0.5)
        ctx.emit("whole")
        return "worked"

    model = ScriptedModel([reply(call("work", id="c")), "end"])
    async with Client(model=model, builtins=False, tools=[work]) as client:
        async with client.stream("go") as stream:
            told = [event async for event in stream if isinstance(event, ToolProgress)]
    assert [(e.path, e.call_id, e.message, e.data) for e in told] == [
        (("main",), "c", "half", {"done": 0.5}),
        (("main",), "c", "whole", {}),
    ]
    data = told[0].to_json()
    assert (data["type"], data["id"], data["data"]) == ("tool_progress", "c", {"done": 0.5})
