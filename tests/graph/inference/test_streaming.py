"""A reply that comes piece by piece, and one that breaks off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.graph.inference.worlds import EITHER_STYLE, Host, channel, failure, one, said, served
from toolnexus import FunctionModel, ModelRequest, ModelResponse, Usage, assistant, graph
from toolnexus.errors import ModelConnectionError, ModelHTTPError
from toolnexus.graph import GraphRunError, Services
from toolnexus.testing import ScriptedModel

pytestmark = pytest.mark.anyio


def breaking(*texts: str, error: BaseException) -> FunctionModel:
    """A model that says something and then fails."""

    async def answer(request: ModelRequest) -> str:
        for text in texts:
            assert request.sink is not None
            request.sink.text(text)
        raise error

    return FunctionModel(answer)


def cut(text: str, usage: Usage) -> ScriptedModel:
    return ScriptedModel([ModelResponse(message=assistant(text), usage=usage, stop="cut")])


def streaming(model: Any, policy: Any = None, **options: Any) -> graph.Graph:
    config = {"stream": True, **({"stream_failure_policy": policy} if policy else {})}
    return one(config, Services(models=model), **options)


async def test_text_and_reasoning_are_deltas_as_they_come_and_one_message_at_the_end() -> None:
    """[GR-320] The board gets the assembled message; nothing is told twice."""

    async def answer(request: ModelRequest) -> ModelResponse:
        assert request.sink is not None
        request.sink.reasoning("hm")
        request.sink.text("ha")
        request.sink.text("lf")
        return ModelResponse(message=assistant("half"))

    host = Host()
    board = await streaming(FunctionModel(answer)).run(said("go"), host=host)
    assert channel(board) == ["user:go", "assistant:half"]
    parts = [delta["part"] for delta in host.deltas if delta["type"] == "part"]
    assert [(part["type"], part["text"]) for part in parts] == [
        ("reasoning", "hm"),
        ("text", "ha"),
        ("text", "lf"),
    ]
    assert host.types[-1] == "finish"


async def test_pieces_are_told_while_the_model_still_speaks() -> None:
    """[GR-320] The first delta is out before the reply is complete."""
    heard = asyncio.Event()

    class Listening(Host):
        async def publish(self, subject: str, payload: Any) -> None:
            await super().publish(subject, payload)
            if self.deltas:
                heard.set()

    async def answer(request: ModelRequest) -> AsyncGenerator[str]:
        yield "one"
        await heard.wait()
        yield "two"

    async with asyncio.timeout(5):
        board = await streaming(FunctionModel(answer)).run(said("go"), host=Listening())
    assert channel(board)[-1] == "assistant:onetwo"


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (None, ["assistant:half"]),
        ({"on_error": "commit_partial"}, ["assistant:half"]),
        ({"on_error": "discard"}, []),
        ({"on_interrupt": "discard"}, ["assistant:half"]),
    ],
)
async def test_what_was_said_before_a_failure_stays_unless_it_is_discarded(
    policy: Any, kept: list[str]
) -> None:
    """[GR-321] A stream that breaks is not_available; its usage so far is reported."""
    host = Host()
    error = await failure(streaming(cut("half", Usage(prompt_tokens=9)), policy), said("go"), host)
    assert (error.kind, error.http_status) == ("not_available", 503)
    assert channel(error.board) == ["user:go", *kept]
    assert host.usage == [(9, 0)]
    model = breaking("ha", "lf", error=ModelConnectionError("gone"))
    error = await failure(streaming(model, policy), said("go"), host)
    assert (error.kind, channel(error.board)) == ("not_available", ["user:go", *kept])


async def test_a_failure_keeps_its_kind() -> None:
    """[GR-321] What the model says of itself, also in the middle of a stream."""
    model = breaking("ha", error=ModelHTTPError("slow down", status=429, retry_after=7.0))
    error = await failure(streaming(model), said("go"))
    assert (error.kind, error.retry_after, channel(error.board)[-1]) == ("rate_limit", 7.0, "assistant:ha")


async def test_a_retry_begins_without_the_partial_text() -> None:
    """[GR-321] The board is restored before the next attempt."""
    model = ScriptedModel([ModelResponse(message=assistant("half"), stop="cut"), "whole"])
    board = await streaming(model, max_node_retries=1).run(said("go"))
    assert channel(board) == ["user:go", "assistant:whole"]


async def test_a_reply_that_the_model_starts_anew_has_no_old_text() -> None:
    """[GR-321] Text that a restarted request made void is not kept."""

    async def answer(request: ModelRequest) -> str:
        assert request.sink is not None
        request.sink.text("old")
        request.retry(attempt=1, delay=0.0, error=OSError("gone"), restarted=True)
        request.sink.text("new")
        raise ModelConnectionError("gone again")

    error = await failure(streaming(FunctionModel(answer)), said("go"))
    assert channel(error.board) == ["user:go", "assistant:new"]


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (None, ["assistant:one"]),
        ({"on_interrupt": "discard"}, []),
        ({"on_error": "discard"}, ["assistant:one"]),
    ],
)
async def test_an_interrupt_stops_the_stream(policy: Any, kept: list[str]) -> None:
    """[GR-322] It is looked for after each delta; what was said stays unless it is discarded."""
    closed = asyncio.Event()

    async def answer(request: ModelRequest) -> AsyncGenerator[str]:
        try:
            yield "one"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with asyncio.timeout(5):
        error = await failure(streaming(FunctionModel(answer), policy), said("go"), Host(interrupt_after=1))
    assert (error.kind, error.http_status) == ("interrupted", 409)
    assert closed.is_set()
    assert error.board is not None
    assert error.board["__interrupted_node"] == "llm"
    assert channel(error.board) == ["user:go", *kept]


async def test_a_silent_model_is_interrupted_too() -> None:
    """[GR-322] An interrupt that comes while nothing is said is seen after a moment."""

    class Stopping(Host):
        def poll_interrupt(self) -> graph.Interrupt | None:
            return graph.Interrupt("user_cancel") if asked.is_set() else None

    asked = asyncio.Event()

    async def answer(request: ModelRequest) -> AsyncGenerator[str]:
        asked.set()
        await asyncio.Event().wait()
        yield "never"

    async with asyncio.timeout(5):
        error = await failure(streaming(FunctionModel(answer)), said("go"), Stopping())
    assert (error.kind, channel(error.board)) == ("interrupted", ["user:go"])


@pytest.mark.parametrize(("policy", "kept"), [(None, ["assistant:one"]), ({"on_interrupt": "discard"}, [])])
async def test_a_cancelled_run_keeps_what_was_said(policy: Any, kept: list[str]) -> None:
    """[GR-322] A cancel is in the category of interrupts, and it closes the request."""
    said_one, closed = asyncio.Event(), asyncio.Event()

    async def answer(request: ModelRequest) -> AsyncGenerator[str]:
        try:
            yield "one"
            said_one.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    board = said("go")
    task = asyncio.create_task(streaming(FunctionModel(answer), policy).run(board))
    async with asyncio.timeout(5):
        await said_one.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert closed.is_set()
    assert channel(board) == ["user:go", *kept]


async def test_a_run_that_takes_too_long_keeps_what_was_said() -> None:
    """[GR-322] A timeout."""

    async def answer(request: ModelRequest) -> AsyncGenerator[str]:
        yield "one"
        await asyncio.Event().wait()

    error = await failure(streaming(FunctionModel(answer), timeout=0.05), said("go"))
    assert (error.kind, channel(error.board)) == ("timeout", ["user:go", "assistant:one"])


async def test_a_budget_cannot_hide_a_failure() -> None:
    """[GR-321] The report of a failed request may be refused: the failure itself is told."""
    error = await failure(streaming(cut("half", Usage(prompt_tokens=9))), said("go"), Host(limit=1))
    assert error.kind == "not_available"


@EITHER_STYLE
@pytest.mark.parametrize("stream", [False, True])
async def test_a_key_that_the_endpoint_repeats_is_nowhere(style: str, stream: bool) -> None:
    """[GR-323] Neither in a delta, nor on the board."""
    host = Host()
    async with served(style, [{"text": "the key is sk-very-secret, yes"}], key="sk-very-secret") as (
        _,
        model,
    ):
        board = await one({"stream": stream, "output_key": "o"}, Services(models=model)).run(
            said("go"), host=host
        )
    assert "very-secret" not in f"{host.deltas} {board['o']} {channel(board)}"
    assert "".join(d["part"]["text"] for d in host.deltas[:-1]) == "the key is [redacted], yes"


@EITHER_STYLE
async def test_a_stream_that_breaks_over_http(style: str) -> None:
    """[GR-321] The text so far is kept in either style, once."""
    turns = [{"text": "one two three four five six", "drop_after": 3 if style == "openai" else 5}]
    host = Host()
    async with served(style, turns) as (_, model):
        error = await failure(streaming(model), said("go"), host)
    assert error.kind == "not_available"
    assert isinstance(error, GraphRunError)
    text = "".join(d["part"]["text"] for d in host.deltas)
    assert text
    assert channel(error.board) == ["user:go", f"assistant:{text}"]
    assert len(host.usage) == 1


@EITHER_STYLE
async def test_a_stream_over_http(style: str) -> None:
    """[GR-320] Either style."""
    host = Host()
    async with served(style, [{"text": "one two three four"}]) as (endpoint, model):
        board = await streaming(model).run(said("go"), host=host)
    assert endpoint.requests[0].body["stream"] is True
    assert channel(board)[-1] == "assistant:one two three four"
    assert host.types == ["part", "part", "part", "finish"]
