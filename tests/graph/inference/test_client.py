"""Requests of nodes as turns of a client's run: counted, bounded, hooked, told, traced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.graph.inference.worlds import built, one, tool
from toolnexus import Budget, Client, FunctionModel, MediaPart, ModelRequest
from toolnexus.core.events import TextDelta, TurnStarted, UsageReported
from toolnexus.core.modalities import ImageRequest, MediaReply
from toolnexus.core.usage import Usage
from toolnexus.errors import ConfigError
from toolnexus.graph import GraphRunError, Services
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


async def test_a_run_counts_what_its_nodes_asked() -> None:
    """[GR-337] Once: by the ledger. The reply is the text of the run."""
    graph = one({}, Services(models=ScriptedModel([reply("one")])))
    async with Client(model=ScriptedModel([])) as client:
        result = await client.run(graph, "hi")
    assert (result.text, result.usage.requests, result.usage.total_tokens) == ("one", 1, 15)


async def test_a_budget_of_requests_stops_a_loop_of_nodes() -> None:
    """[GR-337] Before anything is sent; the run is incomplete at that limit, its work is kept."""
    model = ScriptedModel([reply(call("add", id=f"c{n}")) for n in range(9)])
    nodes = [
        {"id": "llm", "type": "inference", "config": {"all_tools": True}},
        {"id": "tools", "type": "tool"},
    ]
    edges = [{"from": "llm", "to": "tools"}, {"from": "tools", "to": "llm"}]
    graph = built(nodes, Services(models=model, toolkit=[tool("add")]), edges)
    async with Client(model=ScriptedModel([]), budget=Budget(requests=3)) as client:
        result = await client.run(graph, "hi")
    assert (result.status, result.limit, len(model.requests)) == ("incomplete", "requests", 3)


async def test_hooks_see_the_requests_of_nodes() -> None:
    """[GR-337] before_model may change what is sent, after_model what came."""

    class Watching:
        async def before_model(self, ctx: Any, request: ModelRequest) -> ModelRequest:
            return replace(request, system="changed")

    model = ScriptedModel(["fine"])
    async with Client(model=ScriptedModel([]), hooks=[Watching()]) as client:
        await client.run(one({"system_prompt": "mine"}, Services(models=model)), "hi")
    assert model.requests[0].system == "changed"


@pytest.mark.parametrize("stream", [False, True])
async def test_events_of_a_request_are_those_of_a_turn(stream: bool) -> None:
    """[GR-337] The text comes as it is made, and is told once."""

    async def answer(request: ModelRequest) -> Any:
        yield "one "
        yield "two"

    graph = one({"stream": stream}, Services(models=FunctionModel(answer)))
    async with Client(model=ScriptedModel([])) as client:
        async with client.stream("hi", target=graph) as run:
            events = [event async for event in run]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "one two"
    assert len([e for e in events if isinstance(e, TurnStarted)]) == 1
    assert len([e for e in events if isinstance(e, UsageReported)]) == 1
    assert run.result.text == "one two"


class Painter(ScriptedModel):
    """Makes one image, without a seed."""

    async def generate_images(self, request: ImageRequest) -> MediaReply:
        if request.seed is not None:
            raise ConfigError("seed: there is none here")
        part = MediaPart("image/png", url="http://images/1.png")
        return MediaReply(parts=(part,), usage=Usage(prompt_tokens=4))


async def test_images_count_too() -> None:
    """[GR-337] What is no message is a request of the ledger; one that was never sent is none."""
    painter = Painter([], name="painter")
    async with Client(model=ScriptedModel([])) as client:
        result = await client.run(one({"intent": {"image": {}}}, Services(models=painter)), "hi")
        with pytest.raises(GraphRunError) as caught:
            await client.run(one({"intent": {"image": {"seed": 1}}}, Services(models=painter)), "hi")
        async with client.stream(
            "hi", target=one({"intent": {"image": {}}}, Services(models=painter))
        ) as run:
            told = [event async for event in run if isinstance(event, UsageReported)]
    assert [(e.model, e.usage.prompt_tokens, e.usage.requests) for e in told] == [("painter", 4, 1)]
    assert result.usage.by("model")["painter"].prompt_tokens == 4
    assert (caught.value.kind, caught.value.result.usage.requests) == ("validation", 0)


async def test_the_models_of_the_client_are_those_of_its_graphs() -> None:
    """[GR-331] `client.services`: the client's model answers where a node names none."""
    model = ScriptedModel(["fine"])
    async with Client(model=model) as client:
        result = await client.run(one({}, client.services), "hi")
    assert (result.text, len(model.requests)) == ("fine", 1)
