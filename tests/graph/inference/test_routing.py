"""Who is asked: models by name, the router, hints, and what a failure of the provider is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.graph.inference.worlds import EITHER_STYLE, Host, channel, failure, one, said, served
from toolnexus import FallbackModel, ModelRequest, OpenAIModel, Usage
from toolnexus.engine.models import Models
from toolnexus.errors import ConfigError, ModelConnectionError, ModelContextError, ModelError, ModelHTTPError
from toolnexus.graph import GraphRunError, Services, Target
from toolnexus.testing import ScriptedEndpoint, ScriptedModel, reply

pytestmark = pytest.mark.anyio


class Named:
    """Models that say their own names, and remember who was asked."""

    def __init__(self, *keys: str, failing: tuple[str, ...] = ()) -> None:
        self.asked: list[str] = []
        self.models = {key: ScriptedModel([self._answer(key, key in failing)] * 9, name=key) for key in keys}

    def _answer(self, key: str, fails: bool) -> Any:
        def answer(request: ModelRequest) -> Any:
            self.asked.append(key)
            return ModelHTTPError(f"{key} is down", status=503) if fails else f"I am {key}"

        return answer


def ref(provider: str, name: str, profile: str | None = None) -> dict[str, Any]:
    id = {"provider": provider, "name": name}
    return {"id": id} if profile is None else {"id": id, "profile": profile}


async def test_a_node_names_its_model() -> None:
    """[GR-330] By provider and name; the hint is then ignored."""
    named = Named("a/one", "b/two")
    node = one({"model": ref("b", "two"), "model_hint": "a/one"}, Services(models=named.models))
    await node.run(said("hi"))
    assert named.asked == ["b/two"]


async def test_a_profile_tells_two_ways_to_one_model_apart() -> None:
    """[GR-330] Targets with profiles; without one only the one without."""
    first, second = ScriptedModel(["a"]), ScriptedModel(["b"])
    services = Services(
        models=[
            Target(model=first, provider="p", name="m"),
            Target(model=second, provider="p", name="m", profile="work"),
        ]
    )
    board = await one({"model": ref("p", "m", "work")}, services).run(said("hi"))
    assert channel(board)[-1] == "assistant:b"
    error = await failure(one({"model": ref("p", "m", "home")}, services), said("hi"))
    assert (error.kind, "p/m (home)" in str(error)) == ("not_found", True)


async def test_an_unknown_model_is_not_found() -> None:
    """[GR-330] The error says which there are."""
    named = Named("a/one", "b/two")
    error = await failure(one({"model": ref("a", "on")}, Services(models=named.models)), said("hi"))
    assert (error.kind, error.http_status, "a/one" in str(error), named.asked) == ("not_found", 404, True, [])


async def test_one_model_alone_serves_what_documents_call_it() -> None:
    """[GR-331] One without an endpoint answers to any name, one with an endpoint only to names of its own."""
    board = await one({"model": ref("a", "b")}, Services(models=ScriptedModel(["hi"]))).run(said("hi"))
    assert channel(board)[-1] == "assistant:hi"
    async with served("openai", ["hello"]) as (endpoint, model):
        await one({"model": ref("openai", "other")}, Services(models=model)).run(said("hi"))
        error = await failure(one({"model": ref("anthropic", "x")}, Services(models=model)), said("hi"))
    assert ([seen.model for seen in endpoint.requests], error.kind) == (["other"], "not_found")


async def test_the_models_of_a_client_serve_every_name_of_their_endpoints() -> None:
    """[GR-331] The client's own model is the router's only one; others of its endpoint can be named."""
    async with ScriptedEndpoint(["a", "b"]) as endpoint:
        models = Models("openai:m", base_url=endpoint.url, api_key="k", headers=None)
        await one({}, Services(models=models)).run(said("hi"))
        await one({"model": ref("openai", "other")}, Services(models=models)).run(said("hi"))
        error = await failure(one({"model": ref("nobody", "x")}, Services(models=models)), said("hi"))
        await models.aclose()
    assert ([seen.model for seen in endpoint.requests], error.kind) == (["m", "other"], "not_found")


@pytest.mark.parametrize(
    ("hint", "asked"),
    [
        ("", "a/one"),
        (None, "a/one"),
        ("b/two", "b/two"),
        ("two", "b/two"),
        ("same", "a/one"),
        ("c/same", "c/same"),
        ("nobody", "a/one"),
        ("b/one", "a/one"),
        ("/two", "a/one"),
        ("b/", "a/one"),
        ("/", "a/one"),
        (" two ", "b/two"),
    ],
)
async def test_a_hint_is_a_wish(hint: str | None, asked: str) -> None:
    """[GR-332] provider/name, or a name that only one has; any other hint is passed over."""
    named = Named("a/one", "b/two", "b/same", "c/same")
    await one({"model_hint": hint}, Services(models=named.models)).run(said("hi"))
    assert named.asked == [asked]


async def test_a_hint_may_come_from_the_board() -> None:
    """[GR-332] With a default it may be missing there."""
    named = Named("a/one", "b/two")
    node = one({"model_hint": "${board:model:}"}, Services(models=named.models))
    await node.run(said("hi"))
    await node.run(said("hi", model="two"))
    assert named.asked == ["a/one", "b/two"]


async def test_after_a_failed_hint_comes_the_declared_order_without_it() -> None:
    """[GR-333] From its head, and the hinted one is not asked twice."""
    named = Named("a/one", "b/two", "c/three", failing=("b/two", "a/one"))
    host = Host()
    board = await one({"model_hint": "two"}, Services(models=named.models)).run(said("hi"), host=host)
    assert named.asked == ["b/two", "a/one", "c/three"]
    assert channel(board)[-1] == "assistant:I am c/three"
    assert len(host.usage) == 1


async def test_the_last_failure_is_told_with_all_reasons() -> None:
    """[GR-333] When nobody answers."""
    down = ScriptedModel([ModelConnectionError("a is away")])
    slow = ScriptedModel([ModelHTTPError("b is busy", status=429, retry_after=3.0)])
    error = await failure(one({}, Services(models={"p/a": down, "p/b": slow})), said("hi"))
    assert (error.kind, error.retry_after) == ("rate_limit", 3.0)
    assert "a is away" in str(error)
    assert "b is busy" in str(error)


@pytest.mark.parametrize("kind", ["interrupted", "aborted", "budget_exceeded"])
async def test_some_failures_are_not_for_another_model(kind: str) -> None:
    """[GR-333] Those that mean the run, not the model."""
    second = ScriptedModel([])
    first = ScriptedModel([GraphRunError("stop", kind=kind)])
    error = await failure(one({}, Services(models=[first, second])), said("hi"))
    assert (error.kind, second.requests) == (kind, [])


async def test_nothing_is_asked_anew_once_text_was_handed_on() -> None:
    """[GR-333] A stream that fails on its way is not continued by another model."""

    async def answer(request: ModelRequest) -> str:
        assert request.sink is not None
        request.sink.text("ha")
        raise ModelConnectionError("gone")

    second = ScriptedModel(["whole"])
    services = Services(models=[ScriptedModel([answer]), second])
    error = await failure(one({"stream": True}, services), said("hi"))
    assert (channel(error.board), second.requests) == (["user:hi", "assistant:ha"], [])


async def test_the_router_may_be_a_part_of_the_models() -> None:
    """[GR-334] Names of models, in its own order; a name that there is not is an error when it is given."""
    named = Named("a/one", "b/two", "c/three")
    services = Services(models=named.models, router=["c/three", "two"])
    await one({"model_hint": "a/one"}, services).run(said("hi"))
    await one({"model_hint": "two"}, services).run(said("hi"))
    await one({"model": ref("a", "one")}, services).run(said("hi"))
    assert named.asked == ["c/three", "b/two", "a/one"]
    with pytest.raises(ConfigError, match="nobody"):
        Services(models=named.models, router=["nobody"])


async def test_targets_whose_outputs_do_not_fit_are_passed_over() -> None:
    """[GR-335] Also a hinted one; when none fits, that is a validation error."""
    images, texts = ScriptedModel([]), ScriptedModel(["hi"] * 3)
    picture = Target(model=images, provider="p", name="pic", outputs=("image",))
    services = Services(models=[picture, Target(model=texts, provider="p", name="txt")])
    await one({"model_hint": "pic"}, services).run(said("hi"))
    assert (len(texts.requests), images.requests) == (1, [])
    error = await failure(one({}, Services(models=[picture])), said("hi"))
    assert (error.kind, "p/pic: image" in str(error)) == ("validation", True)
    with pytest.raises(ConfigError, match="smell"):
        Target(model=texts, outputs=("smell",))


def says_hi(request: ModelRequest) -> str:
    return "hi"


@pytest.mark.parametrize(
    ("models", "problem"),
    [
        (["gpt"], "OpenAIModel"),
        ({"a/b": 3}, "models=3"),
        (OpenAIModel, "class"),
        (says_hi, "FunctionModel"),
    ],
)
def test_what_is_no_model_is_said(models: Any, problem: str) -> None:
    """[GR-334] When it is given; the error says what to do."""
    with pytest.raises(ConfigError, match=problem):
        Services(models=models)


async def test_no_models_at_all_are_not_available() -> None:
    """[GR-334] An empty list, or a client without a model of its own."""
    assert (await failure(one({}, Services(models={})), said("hi"))).kind == "not_available"


async def test_a_fallback_model_is_one_target() -> None:
    """[GR-331] Any object that answers is a model."""
    fallback = FallbackModel(ScriptedModel([ModelConnectionError("gone")]), ScriptedModel(["fine"]))
    board = await one({}, Services(models=fallback)).run(said("hi"))
    assert channel(board)[-1] == "assistant:fine"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "unauthorized"),
        (403, "unauthorized"),
        (402, "forbidden"),
        (429, "rate_limit"),
        (400, "validation"),
        (404, "validation"),
        (405, "validation"),
        (422, "validation"),
        (418, "not_available"),
        (500, "not_available"),
        (503, "not_available"),
    ],
)
async def test_a_status_of_the_provider_has_a_kind(status: int, kind: str) -> None:
    """[GR-336] Over HTTP, with what the provider said about it."""
    headers = {"retry-after": "99", "x-request-id": "req-7"}
    turn = {"status": status, "body": '{"error": {"message": "no", "code": "why"}}', "headers": headers}
    async with served("openai", [turn]) as (_, model):
        error = await failure(one({}, Services(models=model)), said("hi"))
    assert (error.kind, error.retry_after, error.code, error.request_id) == (kind, 99.0, "why", "req-7")
    assert isinstance(error.__cause__, ModelHTTPError)


@pytest.mark.parametrize(
    ("failed", "kind"),
    [
        (ModelContextError("too long", status=400), "validation"),
        (ModelConnectionError("gone"), "not_available"),
        (ModelError("odd"), "not_available"),
        (TimeoutError(), "timeout"),
        (RuntimeError("bug"), "internal"),
    ],
)
async def test_other_failures_have_a_kind(failed: Exception, kind: str) -> None:
    """[GR-336] A request that is too long is validation also later on; what is not ours is internal."""
    model = ScriptedModel(["fine", failed])
    node = one({}, Services(models=model))
    board = said("hi")
    await node.run(board)
    board.append("__main_channel", *said("more").main)
    assert (await failure(node, board)).kind == kind


async def test_the_request_of_a_failure_is_in_the_events() -> None:
    """[GR-336] And how often it went out again."""
    host = Host()
    told: list[Any] = []

    class Telling(Host):
        async def publish(self, subject: str, payload: Any) -> None:
            told.append((subject.rpartition(".")[2], payload.get("request_id")))

    turn = {"status": 503, "headers": {"request-id": "req-7", "retry-after": "0"}}
    async with ScriptedEndpoint([turn, turn]) as endpoint:
        model = OpenAIModel("m", base_url=endpoint.url, api_key="k", retries=1)
        error = await failure(one({}, Services(models=model)), said("hi"), Telling())
        await model.aclose()
    assert (error.retry_count, host.usage) == (1, [])
    assert told[-2:] == [("error", "req-7"), ("end", "req-7")]


@EITHER_STYLE
async def test_the_reply_says_which_one_it_is(style: str) -> None:
    """[GR-306] finish has the id of the provider's reply."""
    host = Host()
    async with served(style, ["hi"]) as (_, model):
        await one({"stream": True}, Services(models=model)).run(said("hi"), host=host)
    assert host.deltas[-1] == {"type": "finish", "finish_reason": "completed", "response_id": "reply"}


async def test_what_a_broken_stream_used_is_reported_before_its_text_begins() -> None:
    """[GR-321] An endpoint that tells the tokens of the input first."""
    host = Host()
    async with served("anthropic", [{"text": "one two", "drop_after": 2, "usage": [30, 5]}]) as (_, model):
        error = await failure(one({"stream": True}, Services(models=model)), said("hi"), host)
    assert (error.kind, channel(error.board)) == ("not_available", ["user:hi"])
    assert [given for given, _ in host.usage] == [30]


async def test_the_ledger_counts_who_answered() -> None:
    """[GR-337] Requests of nodes are turns of the run: counted, with events, under its budget."""
    model = ScriptedModel([reply("a", usage=Usage(prompt_tokens=1, completion_tokens=2))], name="x")
    other = ScriptedModel([ModelConnectionError("gone")], name="y")
    node = one({"usage_key": "u"}, Services(models=[other, model]))
    board = await node.run(said("hi"))
    assert board["u"]["total_tokens"] == 3
    assert model.requests[0].path == ("g",)
