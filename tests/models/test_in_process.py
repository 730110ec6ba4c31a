"""Models without a server: functions, fallbacks, scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.models.support import OPENAI, Case, Sink, bench
from toolnexus.core.messages import Message, ToolCallPart, assistant, user
from toolnexus.core.model import ModelRequest, ModelResponse
from toolnexus.core.usage import Usage
from toolnexus.errors import (
    ConfigError,
    ModelConnectionError,
    ModelError,
    ModelHTTPError,
    ModelResponseError,
)
from toolnexus.models.base import Model
from toolnexus.models.fallback import FallbackModel
from toolnexus.models.function import FunctionModel, ModelFunction
from toolnexus.testing import USAGE, ScriptedEndpoint, ScriptedModel, Turn, call, reply

pytestmark = pytest.mark.anyio


def ask(text: str = "hi", sink: Sink | None = None, path: str = "main", turn: int = 1) -> ModelRequest:
    return ModelRequest(messages=(user(text),), sink=sink, path=tuple(path.split("/")), turn=turn)


async def test_a_function_answers_with_text_message_or_response() -> None:
    """[WIRE-38] A plain or async function may give a text, a message or a response."""
    message = assistant("m", ToolCallPart("c", "t"))
    response = ModelResponse(message=assistant("r"), usage=Usage(prompt_tokens=1), stop="length")

    async def later(request: ModelRequest) -> Message:
        return message

    cases: list[tuple[ModelFunction, str, str, Usage | None]] = [
        (lambda request: request.messages[0].text.upper(), "HI", "stop", None),
        (later, "m", "tool_calls", None),
        (lambda request: response, "r", "length", Usage(prompt_tokens=1)),
    ]
    for given, text, stop, usage in cases:
        sink = Sink()
        got = await FunctionModel(given).generate(ask(sink=sink))
        assert (got.message.text, got.stop, got.usage) == (text, stop, usage)
        assert sink.texts == [text]


async def test_a_generator_streams_its_texts() -> None:
    """[WIRE-38] Each text of an async generator is handed on as it comes; together they are the reply."""

    async def words(request: ModelRequest) -> AsyncIterator[str]:
        for word in ("one ", "", "two"):
            yield word

    sink = Sink()
    model = FunctionModel(words, name="words")
    assert (await model.generate(ask(sink=sink))).message.text == "one two"
    assert sink.texts == ["one ", "two"]
    assert (await model.generate(ask())).message.text == "one two"
    assert isinstance(model, Model) and model.name == "words"


async def test_a_cancelled_generator_is_closed() -> None:
    """[WIRE-38] Cancelling closes the generator at its yield."""
    closed = asyncio.Event()
    started = asyncio.Event()

    async def endless(request: ModelRequest) -> AsyncGenerator[str]:
        try:
            started.set()
            await asyncio.Event().wait()
            yield "never"
        finally:
            closed.set()

    task = asyncio.create_task(FunctionModel(endless).generate(ask(sink=Sink())))
    async with asyncio.timeout(10):
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert closed.is_set()


async def test_what_a_function_raises_passes_as_it_is() -> None:
    """[WIRE-38] Exceptions are not wrapped; a value of another type is named."""

    def fails(request: ModelRequest) -> str:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await FunctionModel(fails).generate(ask())
    with pytest.raises(ModelResponseError, match="int"):
        await FunctionModel(lambda request: 7, name="odd").generate(ask())  # pyright: ignore


async def test_a_function_that_streams_itself_is_not_doubled() -> None:
    """[WIRE-38] Text that the function handed to the sink is not handed on a second time."""

    def by_hand(request: ModelRequest) -> str:
        assert request.sink is not None
        request.sink.text("by hand")
        return "by hand"

    sink = Sink()
    await FunctionModel(by_hand).generate(ask(sink=sink))
    assert sink.texts == ["by hand"]


def failing(error: Exception, said: str = "") -> FunctionModel:
    def fail(request: ModelRequest) -> str:
        if said and request.sink is not None:
            request.sink.text(said)
        raise error

    return FunctionModel(fail, name="failing")


LATER = [
    ModelConnectionError("lost"),
    ModelHTTPError("busy", status=503, retryable=True),
    ModelHTTPError("no key", status=401),
    ModelHTTPError("no money", status=429),
    ModelHTTPError("no such model", status=404),
    ModelResponseError("odd"),
]


@pytest.mark.parametrize("error", LATER, ids=str)
async def test_the_next_model_answers_when_one_cannot(error: ModelError) -> None:
    """[WIRE-39] After any failure that another model may not have, the next one is asked."""
    sink = Sink()
    model = FallbackModel(failing(error), FunctionModel(lambda request: "second", name="b"))
    response = await model.generate(ask(sink=sink))
    assert (response.message.text, response.model) == ("second", "b")
    assert model.name == "failing|b"
    assert [r["reason"] for r in sink.retries] == [str(error)]
    assert sink.said == "second"


async def test_the_first_model_says_that_it_answered() -> None:
    """[WIRE-39] `ModelResponse.model` names who answered, also when it was the first."""
    model = FallbackModel(FunctionModel(lambda r: "one", name="a"), failing(ModelError("unused")))
    assert (await model.generate(ask())).model == "a"


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_refused_request_goes_to_nobody_else(status: int) -> None:
    """[WIRE-39] What is wrong with the request itself would be wrong for the next model too."""
    model = FallbackModel(failing(ModelHTTPError("bad", status=status)), FunctionModel(lambda r: "no"))
    with pytest.raises(ModelHTTPError, match="bad"):
        await model.generate(ask())


async def test_the_first_token_commits() -> None:
    """[WIRE-39] Once text was handed on, the failure is raised and nobody else answers."""
    model = FallbackModel(failing(ModelConnectionError("lost"), "some"), FunctionModel(lambda r: "no"))
    sink = Sink()
    with pytest.raises(ModelConnectionError):
        await model.generate(ask(sink=sink))
    assert sink.said == "some"


async def test_the_last_error_holds_all_reasons() -> None:
    """[WIRE-39] When nobody answers, the last model's error is raised with the reasons of all."""
    last = ModelHTTPError("down", status=503, retryable=True)
    model = FallbackModel(failing(ModelConnectionError("lost")), failing(last))
    with pytest.raises(ModelHTTPError, match="lost; then down") as caught:
        await model.generate(ask())
    assert caught.value is last


async def test_other_exceptions_do_not_fall_back() -> None:
    """[WIRE-39] A bug is not a reason to ask another model."""
    with pytest.raises(KeyError):
        await FallbackModel(failing(KeyError("bug")), FunctionModel(lambda r: "no")).generate(ask())


async def test_a_fallback_between_endpoints_keeps_its_memos_apart() -> None:
    """[WIRE-39] Two endpoints in one run share the run's memo without mixing their bytes."""
    async with (
        bench(Case(OPENAI), [Turn(status=401)] * 2) as b,
        ScriptedEndpoint([Turn(text="ok")] * 2) as second,
    ):
        other = Case("anthropic").model(second.url, name="other")
        model = FallbackModel(b.model, other)
        memo: dict[Any, Any] = {}
        for _ in range(2):
            response = await model.generate(replace(ask(), memo=memo))
            assert response.model == "other"
        assert second.requests[1].body["messages"][0]["content"][0]["text"] == "hi"
        assert b.bodies[1]["messages"] == [{"role": "user", "content": "hi"}]
        assert set(model.secrets) == {*b.model.secrets, *other.secrets}
        await model.aclose()


def test_a_fallback_needs_a_model() -> None:
    """[WIRE-39] An empty fallback is refused."""
    with pytest.raises(ConfigError):
        FallbackModel()


async def test_closing_a_fallback_closes_all() -> None:
    """[WIRE-39] Every model is closed, also when one of them fails to."""
    closed: list[str] = []

    class Closing(FunctionModel):
        async def aclose(self) -> None:
            closed.append(self.name)
            if self.name == "a":
                raise OSError("stuck")

    model = FallbackModel(Closing(lambda r: "", name="a"), Closing(lambda r: "", name="b"))
    with pytest.raises(OSError, match="stuck"):
        await model.aclose()
    assert closed == ["a", "b"]


async def test_a_script_gives_its_replies_in_order() -> None:
    """[WIRE-40] Texts, calls, usage and stops come as scripted; ids are made from turn and position."""
    model = ScriptedModel(
        [
            "plain",
            reply("two", call("look", q="x"), call("find", id="mine")),
            reply("cut", usage=None, stop="length"),
        ]
    )
    first = await model.generate(ask())
    assert (first.message.text, first.usage, first.stop) == ("plain", USAGE, "stop")
    second = await model.generate(ask(turn=2))
    assert second.stop == "tool_calls"
    assert second.message.tool_calls == (
        ToolCallPart("c2_0", "look", '{"q": "x"}'),
        ToolCallPart("mine", "find", "{}"),
    )
    third = await model.generate(ask(turn=3))
    assert (third.usage, third.stop) == (None, "length")
    assert [r.turn for r in model.requests] == [1, 2, 3]


async def test_replies_by_path_do_not_race() -> None:
    """[WIRE-40] Parallel runs get the replies of their own path and turn, in any order of asking."""
    model = ScriptedModel(
        ["main"],
        by_path={"main/a.*": ["a1", "a2"], "main/b.t2": [reply("b1")]},
    )
    asked = [("main/a.t1", 2), ("main/b.t2", 1), ("main", 1), ("main/a.t9", 1), ("main/a.t1", 1)]
    got = [(await model.generate(ask(path=path, turn=turn))).message.text for path, turn in asked]
    assert got == ["a2", "b1", "main", "a1", "a1"]


async def test_a_reply_with_when_answers_the_first_request_that_fits() -> None:
    """[WIRE-40] `when` picks by the request, once; what does not fit takes the queue."""
    model = ScriptedModel(["queue", reply("cats", when=lambda r: "cat" in r.messages[0].text), "queue 2"])
    got = [(await model.generate(ask(text))).message.text for text in ("dog", "my cat", "cat again")]
    assert got == ["queue", "cats", "queue 2"]


async def test_a_script_that_has_run_out_names_path_and_turn() -> None:
    """[WIRE-40] A request without a reply is an error that says whose it was."""
    model = ScriptedModel(by_path={"main": ["one"]}, name="m")
    with pytest.raises(ModelError, match=r"'m'.*'main', turn 2.*by_path\['main'\] has 1"):
        await model.generate(ask(turn=2))
    with pytest.raises(ModelError, match=r"'other', turn 1.*no reply is left"):
        await model.generate(ask(path="other"))


async def test_a_reply_may_be_a_function_or_an_error() -> None:
    """[WIRE-40] Functions, plain or async, hold runs back or look at the request; errors are raised."""
    gate = asyncio.Event()

    async def held(request: ModelRequest) -> str:
        await gate.wait()
        return request.messages[0].text

    model = ScriptedModel([held, lambda request: reply("made"), ModelConnectionError("lost")])
    async with asyncio.timeout(10):
        task = asyncio.create_task(model.generate(ask("held back")))
        await asyncio.sleep(0)
        assert not task.done()
        gate.set()
        assert (await task).message.text == "held back"
    assert (await model.generate(ask())).message.text == "made"
    with pytest.raises(ModelConnectionError, match="lost"):
        await model.generate(ask())


async def test_requests_are_kept_as_they_were() -> None:
    """[WIRE-40] A transcript that grows later does not change what was seen."""
    messages = [user("one")]
    model = ScriptedModel(["a"])
    await model.generate(ModelRequest(messages=messages))
    messages.append(user("two"))
    assert [m.text for m in model.requests[0].messages] == ["one"]


async def test_a_reply_may_be_calls_alone() -> None:
    """[WIRE-47] A reply that starts with a call has no text, and all its calls."""
    model = ScriptedModel([reply(call("look", q="x"), call("find"))])
    message = (await model.generate(ModelRequest(messages=(user("x"),)))).message
    assert message.text == ""
    assert [(c.name, c.arguments) for c in message.tool_calls] == [("look", '{"q": "x"}'), ("find", "{}")]


def test_what_no_reply_can_be_is_refused_when_it_is_written() -> None:
    """[WIRE-47] A wrong reply or script is an error where the test writes it."""
    wrong: list[tuple[Any, str]] = [
        (lambda: reply(5), "starts with its text or a call"),  # pyright: ignore[reportArgumentType]
        (lambda: reply("x", [call("a")]), "not list"),  # pyright: ignore[reportArgumentType]
        (lambda: ScriptedModel("hello"), "must be a list"),
        (lambda: ScriptedModel(by_path={"main": "hello"}), "must be a list"),
    ]
    for make, said in wrong:
        with pytest.raises(ConfigError, match=said):
            make()
