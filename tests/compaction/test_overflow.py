"""A request that is too long for the model: shortened and sent once more, or the end of the run."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.loop.support import ANTHROPIC, OPENAI, WAYS, Way, bench, each_way, task, use
from toolnexus import (
    Agent,
    Budget,
    Client,
    FunctionModel,
    Hooks,
    Message,
    ModelContextError,
    ModelHTTPError,
    ModelRequest,
    RunContext,
    assistant,
    compactor,
    tool,
    user,
)
from toolnexus.models.wire import event_error, http_error
from toolnexus.runtime.redact import Redactor
from toolnexus.testing import ScriptedModel, Turn, call

pytestmark = pytest.mark.anyio

SAID = {
    OPENAI: {
        "message": "This model's maximum context length is 1000 tokens. However, your messages resulted in "
        "1,034 tokens. Please reduce the length of the messages.",
        "type": "invalid_request_error",
        "code": "context_length_exceeded",
    },
    ANTHROPIC: {"type": "invalid_request_error", "message": "prompt is too long: 1034 tokens > 1000 maximum"},
}


@tool
async def look(q: str) -> str:
    """Look at something."""
    return f"saw {q}: " + "x" * 2_000


def too_long(style: str) -> Turn:
    return Turn(status=400, body=json.dumps({"type": "error", "error": SAID[style]}))


def window(way: Way, most: int, turns: list[Turn]) -> list[Any]:
    """An endpoint that refuses every body above `most` characters and otherwise gives `turns`."""
    left = list(turns)

    def act(seen: Any) -> Turn:
        if len(seen.raw) > most:
            return too_long(way.style)
        return left.pop(0) if "You keep the notes" not in seen.raw.decode() else Turn(text="the notes")

    return [act] * 60


def working(rounds: int) -> list[Turn]:
    return [*[Turn(calls=[use("look", {"q": str(n)}, f"c{n}")]) for n in range(rounds)], Turn(text="the end")]


@each_way
async def test_what_is_too_long_is_shortened_and_sent_once_more(way: Way) -> None:
    """[CMP-20] With a compactor a request that the model cannot read is made shorter and sent once more; the
    limit is remembered, so it does not happen in every turn, nor in the next run with that model."""
    hook = compactor(100_000)
    async with bench(
        way, {"main": window(way, 9_000, working(12))}, tools=[look], hooks=[hook], max_turns=20
    ) as b:
        result = await b.ask("find it")
        assert (result.status, result.text, result.turns) == ("done", "the end", 13)
        refused = [s for s in b.endpoint.requests if len(s.raw) > 9_000]
        assert len(refused) == 1
        assert result.usage.requests == len(b.endpoint.requests)
        assert all(r.messages[0]["role"] == "user" for r in b.sent())


@each_way
async def test_without_a_compactor_the_work_is_kept(way: Way) -> None:
    """[CMP-21] Without one the run is `incomplete` with limit `context`, its value what the endpoint says:
    one refused request, the transcript and the text so far kept, a caller reads it with the limit."""
    first = Turn(text="I begin", calls=[use("look", {"q": "0"}, "c0")])
    turns = window(way, 9_000, [first, *working(12)[1:]])
    async with bench(way, {"main": turns}, tools=[look], max_turns=20) as b:
        result = await b.ask("find it", conversation="t")
        assert (result.status, result.limit, result.text) == ("incomplete", "context", "I begin")
        assert [(h.limit, h.value) for h in result.limits_hit] == [("context", 1000)]
        assert sum(len(s.raw) > 9_000 for s in b.endpoint.requests) == 1
        assert result.messages[-1].role == "tool" and result.tool_calls > 2
        kept = await b.client.conversation("t").messages()
        assert len(kept) == len(result.messages)


@each_way
async def test_a_first_request_that_is_too_long_is_the_error_itself(way: Way) -> None:
    """[CMP-22] Before any work the endpoint's own words are raised, with the window and the way on; a child's
    are an error result."""
    async with bench(way, {"main": window(way, 3_000, [])}) as b:
        with pytest.raises(ModelContextError, match="compactor") as raised:
            await b.ask("z" * 8_000)
        assert (raised.value.status, raised.value.window, raised.value.retryable) == (400, 1000, False)
        assert isinstance(raised.value, ModelHTTPError) and len(b.endpoint.requests) == 1
    agent = Agent(name="reader", model="small", tools=[])
    turns = {
        "main": [Turn(calls=[task("reader", "z" * 8_000)]), Turn(text="I see")],
        "small": window(way, 3_000, []),
    }
    async with bench(way, turns, agents=[agent]) as b:
        result = await b.ask("go")
        assert result.status == "done" and result.sub_agents[0].status == "error"
        assert "agent 'reader' failed" in b.sent("main")[-1].results[0].text


async def test_a_child_with_a_small_window_uses_it() -> None:
    """[CMP-20] A client's compactor has one number; a child whose model reads less finds out by one refused
    request and goes on with its own window."""
    way = WAYS[0]
    digger = Agent(name="digger", model="small", tools=[look], max_turns=20)
    turns = {
        "main": [Turn(calls=[task("digger", "dig", id=f"t{n}")]) for n in range(2)] + [Turn(text="thanks")],
        "small": window(way, 9_000, [*working(12), *working(12)]),
    }
    async with bench(way, turns, agents=[digger], hooks=[compactor(100_000)]) as b:
        result = await b.ask("go")
        assert [c.status for c in result.sub_agents] == ["done", "done"] and result.status == "done"
        small = [s for s in b.endpoint.requests if s.model == "small"]
        assert sum(len(s.raw) > 9_000 for s in small) == 1


async def test_what_cannot_be_made_shorter_is_not_sent_again() -> None:
    """[CMP-23] A request that is long by the user's own words alone is refused once, not twice."""
    way = WAYS[0]
    async with bench(way, {"main": window(way, 3_000, [])}, hooks=[compactor(100_000)]) as b:
        with pytest.raises(ModelContextError):
            await b.ask("z" * 8_000)
        assert len(b.endpoint.requests) == 1


async def test_a_second_refusal_ends_the_run() -> None:
    """[CMP-23] The shorter request is sent once. When it is refused too, the run ends."""
    asked: list[ModelRequest] = []

    def model(request: ModelRequest) -> Message | str:
        if request.path[-1] == "summary":
            return "notes"
        asked.append(request)
        if request.turn < 4:
            return assistant("working", call("look", q=str(request.turn), id=f"c{request.turn}"))
        raise ModelContextError("too long", status=400)

    async with Client(
        model=FunctionModel(model), builtins=False, tools=[look], hooks=[compactor(50_000)]
    ) as c:
        result = await c.ask("find it")
    assert (result.status, result.limit, result.text) == ("incomplete", "context", "working")
    assert [r.turn for r in asked] == [1, 2, 3, 4, 4]
    assert len(asked[-1].messages) < len(asked[-2].messages)


async def test_any_hook_may_shorten_a_request() -> None:
    """[CMP-24] `on_overflow` of the nearest hook is asked first; what it gives is sent, once; other types are
    an error, and None leaves the question to the next."""

    class Last(Hooks):
        def on_overflow(
            self, ctx: RunContext, request: ModelRequest, error: ModelContextError
        ) -> ModelRequest | None:
            return replace(request, messages=request.messages[-1:])

    class Silent(Hooks):
        def on_overflow(
            self, ctx: RunContext, request: ModelRequest, error: ModelContextError
        ) -> ModelRequest | None:
            return None

    class Wrong:
        def on_overflow(self, ctx: RunContext, request: ModelRequest, error: ModelContextError) -> str:
            return "short"

    def model(request: ModelRequest) -> str:
        if len(request.messages) > 1:
            raise ModelContextError("too long", status=400)
        return request.messages[0].text

    async with Client(model=FunctionModel(model), builtins=False, hooks=[Last(), Silent()]) as client:
        assert (await client.ask([user("one"), user("two")])).text == "two"
    async with Client(model=FunctionModel(model), builtins=False, hooks=[Last(), Wrong()]) as client:
        with pytest.raises(TypeError, match="on_overflow hook returned str"):
            await client.ask([user("one"), user("two")])


WORDS: Sequence[tuple[int, str, str, int | None]] = [
    (400, "context_length_exceeded", "whatever", None),
    (
        400,
        "",
        "This model's maximum context length is 8192 tokens. However, your messages took 8,545 tokens.",
        8192,
    ),
    (
        400,
        "",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        None,
    ),
    (400, "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum", 200_000),
    (
        400,
        "",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease",
        200_000,
    ),
    (
        400,
        "",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        1_048_575,
    ),
    (
        400,
        "",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        131_072,
    ),
    (400, "", "Please reduce the length of the messages or completion.", None),
    (400, "", "the request exceeds the available context size. try increasing the context size", None),
    (
        400,
        "exceed_context_size_error",
        "request (5020 tokens) exceeds the available context size (4096 tokens)",
        4096,
    ),
    (400, "", "Input is too long for requested model.", None),
    (413, "request_too_large", "Request exceeds the maximum size", None),
    (422, "", "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097", None),
    (400, "", "prompt token count of 70000 exceeds the limit of 64000", 64_000),
]


@pytest.mark.parametrize(("status", "code", "message", "tokens"), WORDS)
def test_every_usual_way_to_say_it_is_understood(
    status: int, code: str, message: str, tokens: int | None
) -> None:
    """[CMP-25] Endpoints say it in many words; the window is read where one is named."""
    error = {"message": message, **({"code": code} if code else {})}
    made = http_error("host", status, {}, json.dumps({"error": error}), Redactor())
    assert isinstance(made, ModelContextError) and (made.window, made.retryable) == (tokens, False)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens"),
        (400, "messages.1: tool_use ids were found without tool_result blocks"),
        (429, "Rate limit reached: the context window is busy"),
        (500, "maximum context length"),
        (404, "no such model"),
    ],
)
def test_other_errors_stay_what_they_are(status: int, message: str) -> None:
    """[CMP-25] Nothing else is taken for it: shortening would not help."""
    made = http_error("host", status, {}, json.dumps({"error": {"message": message}}), Redactor())
    assert type(made) is ModelHTTPError


def test_it_is_understood_inside_a_stream() -> None:
    """[CMP-25] Also as an event of a stream."""
    made = event_error("host", SAID[OPENAI], Redactor())
    assert isinstance(made, ModelContextError) and made.window == 1000


async def test_the_shorter_request_is_claimed_as_well() -> None:
    """[CMP-23] In every budget; where none is left the run ends at it, and nothing is sent."""
    model = ScriptedModel([ModelContextError("too long", status=400), "never"])

    class Shorter(Hooks):
        def on_overflow(
            self, ctx: RunContext, request: ModelRequest, error: ModelContextError
        ) -> ModelRequest:
            return replace(request, messages=[user("short")])

    async with Client(model=model, builtins=False, hooks=[Shorter()], budget=Budget(requests=1)) as c:
        result = await c.ask("long")
    assert (result.status, result.limit, len(model.requests)) == ("incomplete", "requests", 1)


async def test_of_several_hooks_that_shorten_one_is_tried() -> None:
    """[CMP-23] [CMP-24] The nearest. When its request is refused, too, no other is asked."""
    model = ScriptedModel([ModelContextError("too long", status=400)] * 2)
    asked: list[str] = []

    def hook(name: str) -> object:
        class Shorter(Hooks):
            def on_overflow(
                self, ctx: RunContext, request: ModelRequest, error: ModelContextError
            ) -> ModelRequest:
                asked.append(name)
                return replace(request, messages=[user(name)])

        return Shorter()

    async with Client(model=model, builtins=False, hooks=[hook("far"), hook("near")]) as c:
        with pytest.raises(ModelContextError):
            await c.ask("long")
    assert asked == ["near"] and [r.messages[0].text for r in model.requests] == ["long", "near"]
