"""The ways to ask an endpoint for a typed answer, and what it is found to have."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.loop.support import ANTHROPIC, OPENAI, PATIENCE, Way, each_style, each_way, two_ways, use
from tests.models.support import ALL, Case
from tests.models.test_types import accepted
from tests.typed.forms import Finding, Tree
from toolnexus import (
    Client,
    ConfigError,
    FallbackModel,
    FunctionModel,
    Hooks,
    ModelHTTPError,
    OpenAIModel,
    RunResult,
    ToolContext,
    tool,
)
from toolnexus.core.model import ModelRequest
from toolnexus.models.hosted import HostedModel
from toolnexus.models.registry import resolve
from toolnexus.testing import ScriptedEndpoint
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio

GOOD = '{"risk": 3, "files": [], "note": null}'
ANSWER = Turn(text=GOOD)
CALLED = Turn(calls=[use("final_answer", {"risk": 3})])
NO_FORMAT = {
    OPENAI: Turn(status=400, body='{"error": {"message": "This response_format type is unavailable now"}}'),
    ANTHROPIC: Turn(
        status=400, body='{"error": {"message": "output_config: Extra inputs are not permitted"}}'
    ),
}
NO_TOOLS = Turn(status=400, body='{"error": {"message": "this model does not support tools"}}')


@tool
async def look(at: str) -> str:
    """Look at a file."""
    return f"{at} is fine"


@asynccontextmanager
async def before(
    way: Way, turns: Sequence[Turn], options: dict[str, Any] | None = None, **client: Any
) -> AsyncGenerator[tuple[Client, ScriptedEndpoint]]:
    """A client before an endpoint with `turns`; `options` are the model's. Every body must be valid."""
    async with asyncio.timeout(PATIENCE), ScriptedEndpoint(turns) as endpoint:
        given: dict[str, Any] = {"model": way.model(endpoint, **(options or {})), "builtins": False, **client}
        async with Client(**given) as opened:
            yield opened, endpoint
        for seen in endpoint.requests:
            accepted(way.style, bool(seen.body.get("stream")), seen.body)


def wants(body: dict[str, Any]) -> str:
    """The way that a body asks in."""
    if "response_format" in body or "format" in body.get("output_config", {}):
        return "native"
    if any("final_answer" in str(t) for t in body.get("tools", ())):
        return "tool"
    return "prompt" if "JSON Schema" in json.dumps([body.get("system"), body["messages"]]) else "none"


def ways_of(endpoint: ScriptedEndpoint) -> list[str]:
    return [wants(seen.body) for seen in endpoint.requests]


@each_way
async def test_natively_the_body_has_the_closed_schema(way: Way) -> None:
    """[TY-20] [TY-29] In the member of the style, streamed or not; the next untyped request has none."""
    async with before(way, [ANSWER, Turn(text="hi")]) as (client, endpoint):
        result = await way.ask(client, "go", output_type=Finding)
        await way.ask(client, "go")
    assert result.output == Finding(risk=3) and ways_of(endpoint) == ["native", "none"]
    body = endpoint.requests[0].body
    if way.style == OPENAI:
        form = body["response_format"]
        assert form["type"] == "json_schema"
        assert (form["json_schema"]["name"], form["json_schema"]["strict"]) == ("Finding", True)
        assert form["json_schema"]["description"] == "What was found in one place."
        schema = form["json_schema"]["schema"]
        assert schema["required"] == ["risk", "files", "note"]
    else:
        assert body["output_config"]["format"]["type"] == "json_schema"
        schema = body["output_config"]["format"]["schema"]
        assert schema["required"] == ["risk"]
    assert schema["additionalProperties"] is False and list(schema["properties"]) == ["risk", "files", "note"]


@each_way
async def test_in_the_tool_way_the_answer_is_the_arguments_of_a_call(way: Way) -> None:
    """[TY-21] [TY-29] It must call; the call is gone from transcript, count, hooks and events."""

    class Seen(Hooks):
        def __init__(self) -> None:
            self.names: list[str] = []

        def before_tool(self, ctx: ToolContext) -> None:
            self.names.append(ctx.call.name)

    hook, events = Seen(), list[Any]()
    turns = [Turn(calls=[use("look", {"at": "a"})]), CALLED]
    async with before(way, turns, {"structured": "tool"}, tools=[look], hooks=[hook]) as (client, endpoint):
        result = await way.ask(client, "go", events, output_type=Finding)
    assert result.output == Finding(risk=3) and json.loads(result.text)["risk"] == 3
    assert hook.names == ["look"] and result.tool_calls == 1 and result.turns == 2
    assert [e.name for e in events if e.type == "tool_call"] == (["look"] if way.streamed else [])
    assert not result.messages[-1].tool_calls
    first, second = [seen.body for seen in endpoint.requests]
    assert first["tools"] == second["tools"] and len(first["tools"]) == 2
    assert first["tool_choice"] == ("required" if way.style == OPENAI else {"type": "any"})


@each_style
async def test_the_answer_tool_gives_way_to_one_of_the_users(way: Way) -> None:
    """[TY-21] Another name, and of several answers the last one."""

    @tool(name="final_answer")
    async def theirs(risk: int) -> str:
        """A tool of the user that has the name."""
        return "theirs ran"

    last = Turn(calls=[use("final_answer_2", {"risk": 8}, "a"), use("final_answer_2", {"risk": 4}, "b")])
    turns = [Turn(calls=[use("final_answer", {"risk": 1})]), last]
    async with before(way, turns, {"structured": "tool"}, tools=[theirs]) as (client, _):
        result = await client.ask("go", output_type=Finding)
    assert result.output == Finding(risk=4) and result.tool_calls == 1
    assert result.messages[2].tool_results[0].output == "theirs ran"


@each_style
async def test_odd_names_of_members_survive_the_tool_way(way: Way) -> None:
    """[TY-21] Endpoints refuse them in tools: they are shown under another name."""
    form = {"type": "object", "properties": {"who is it?": {"type": "string"}}, "required": ["who is it?"]}

    def answer(body: dict[str, Any]) -> Turn:
        (offered,) = body["tools"]
        schema = offered["input_schema"] if way.style == ANTHROPIC else offered["function"]["parameters"]
        (name,) = schema["properties"]
        return Turn(calls=[use("final_answer", {name: "ann"})])

    async with asyncio.timeout(PATIENCE), ScriptedEndpoint(answer) as endpoint:
        async with Client(model=way.model(endpoint, structured="tool"), builtins=False) as client:
            assert (await client.ask("go", output_type=form)).output == {"who is it?": "ann"}


@each_way
async def test_in_the_prompt_way_the_schema_stands_behind_the_system_prompt(way: Way) -> None:
    """[TY-22] [TY-29] And nothing else of the body says that a type is wanted."""
    turns = [Turn(text=f"Here:\n```json\n{GOOD}\n```")]
    async with before(way, turns, {"structured": "prompt"}, system_prompt="Be kind.") as (client, endpoint):
        result = await way.ask(client, "go", output_type=Finding)
    assert result.output == Finding(risk=3)
    body = endpoint.requests[0].body
    system = body["system"][0]["text"] if way.style == ANTHROPIC else body["messages"][0]["content"]
    assert system.startswith("Be kind.\n\n") and '"maximum": 9' in system
    assert not body.keys() & {"tools", "tool_choice", "response_format", "output_config"}


@each_way
async def test_a_refused_format_is_not_sent_again(way: Way) -> None:
    """[TY-23] The same turn goes on with the tool, the reader is told, the next run starts there."""
    events: list[Any] = []
    async with before(way, [NO_FORMAT[way.style], CALLED, CALLED]) as (client, endpoint):
        result = await way.ask(client, "go", events, output_type=Finding)
        again = await way.ask(client, "go", events, output_type=Finding)
    assert result.output == again.output == Finding(risk=3)
    assert (result.turns, result.usage.requests, result.status) == (1, 1, "done")
    assert ways_of(endpoint) == ["native", "tool", "tool"]
    if way.streamed:
        (retry,) = [e for e in events if e.type == "retrying"]
        assert ("response_format" if way.style == OPENAI else "output_config") in retry.reason


@two_ways
async def test_refused_tools_leave_the_prompt(way: Way) -> None:
    """[TY-23] Down to words, remembered as well."""
    turns = [NO_FORMAT[way.style], NO_TOOLS, ANSWER, ANSWER]
    async with before(way, turns) as (client, endpoint):
        for _ in range(2):
            assert (await way.ask(client, "go", output_type=Finding)).output == Finding(risk=3)
    assert ways_of(endpoint) == ["native", "tool", "prompt", "prompt"]


@each_style
async def test_another_error_is_no_refusal(way: Way) -> None:
    """[TY-23] A bad key, and a request that is too long, are what they are; nothing is learnt of them."""
    long = Turn(status=400, body='{"error": {"message": "the prompt has 300000 tokens, 200000 are allowed"}}')
    key = Turn(status=401, body='{"error": {"message": "no such key; see the schema of our errors"}}')
    async with before(way, [long, key, ANSWER]) as (client, endpoint):
        for status in (400, 401):
            with pytest.raises(ModelHTTPError) as caught:
                await client.ask("go", output_type=Finding)
            assert caught.value.status == status
        await client.ask("go", output_type=Finding)
    assert ways_of(endpoint) == ["native"] * 3


@each_style
async def test_a_twin_of_another_name_learns_for_itself(way: Way) -> None:
    """[TY-23] What one model lacks another at the same endpoint may have; the choice of a way is shared."""
    async with ScriptedEndpoint({"old": [NO_FORMAT[way.style], CALLED, CALLED], "new": [ANSWER]}) as endpoint:
        old = way.model(endpoint, name="old")
        async with Client(model=old, builtins=False) as client:
            await client.ask("go", output_type=Finding)
            await client.ask("go", output_type=Finding)
        async with Client(model=old.named("new"), builtins=False) as client:
            await client.ask("go", output_type=Finding)
    assert ways_of(endpoint) == ["native", "tool", "tool", "native"]


@each_style
async def test_many_runs_that_are_refused_at_once_all_go_on(way: Way) -> None:
    """[TY-23] Each is asked again in the next way; later ones start there."""

    def answer(body: dict[str, Any]) -> Turn:
        return NO_FORMAT[way.style] if wants(body) == "native" else CALLED

    async with asyncio.timeout(PATIENCE), ScriptedEndpoint(answer) as endpoint:
        async with Client(model=way.model(endpoint), builtins=False) as client:
            results = await asyncio.gather(*(client.ask("go", output_type=Finding) for _ in range(20)))
            seen = len(endpoint.requests)
            await client.ask("go", output_type=Finding)
    assert [r.output for r in results] == [Finding(risk=3)] * 20
    assert ways_of(endpoint)[seen:] == ["tool"]


@two_ways
async def test_an_endpoint_that_passes_over_the_format_is_found_out(way: Way) -> None:
    """[TY-24] Prose in spite of the schema: the repair and all later asks take the next way."""
    async with before(way, [Turn(text="I would say three."), CALLED, CALLED]) as (client, endpoint):
        result = await way.ask(client, "go", output_type=Finding)
        await way.ask(client, "go", output_type=Finding)
    assert result.output == Finding(risk=3) and result.turns == 2
    assert ways_of(endpoint) == ["native", "tool", "tool"]


@each_style
async def test_json_that_does_not_fit_and_calls_are_no_prose(way: Way) -> None:
    """[TY-24] Then the format did its work as far as it goes."""
    turns = [Turn(text="I look.", calls=[use("look", {"at": "a"})]), Turn(text='{"risk": 11}'), ANSWER]
    async with before(way, turns, tools=[look]) as (client, endpoint):
        assert (await client.ask("go", output_type=Finding)).output == Finding(risk=3)
    assert ways_of(endpoint) == ["native"] * 3


@each_style
@pytest.mark.parametrize("structured", ["native", "tool", "prompt"])
async def test_a_chosen_way_is_the_only_one(way: Way, structured: Any) -> None:
    """[TY-25] Also when it is refused, or answered with prose."""
    refusal = NO_TOOLS if structured == "tool" else NO_FORMAT[way.style]
    options = {"structured": structured}
    async with before(way, [refusal, Turn(text="three"), Turn(text="4"), ANSWER], options) as (
        client,
        endpoint,
    ):
        with pytest.raises(ModelHTTPError):
            await client.ask("go", output_type=Finding)
        with pytest.raises(Exception, match="does not fit"):
            await client.ask("go", output_type=Finding)
        await client.ask("go", output_type=Finding)
    assert ways_of(endpoint) == [structured] * 4


def test_another_word_is_no_way() -> None:
    """[TY-25] Refused where the model is made; a twin keeps the choice."""
    with pytest.raises(ConfigError, match=r"structured='json'.*'native', 'tool', 'prompt'"):
        OpenAIModel("m", base_url="http://localhost:1", structured="json")  # type: ignore[arg-type]
    model = OpenAIModel("m", base_url="http://localhost:1", structured="prompt")
    assert model.named("n")._ways.forced == "prompt"


async def body_of(way: Way, turn: Turn = ANSWER, form: Any = Finding, **options: Any) -> dict[str, Any]:
    """The body that a model with `options` is sent."""
    async with before(way, [turn], options) as (client, endpoint):
        await client.ask("go", output_type=form)
    return endpoint.requests[0].body


async def test_params_come_before_what_we_ask_for() -> None:
    """[TY-26] A format and a choice of the user's own stay; Anthropic's output_config is joined."""
    openai, anthropic = Way(OPENAI), Way(ANTHROPIC)
    body = await body_of(openai, params={"response_format": {"type": "json_object"}})
    assert body["response_format"] == {"type": "json_object"}
    body = await body_of(openai, CALLED, structured="tool", params={"tool_choice": "auto"})
    assert body["tool_choice"] == "auto"
    body = await body_of(anthropic, params={"output_config": {"effort": "low"}})
    assert (
        body["output_config"]["effort"] == "low" and body["output_config"]["format"]["type"] == "json_schema"
    )


async def test_a_model_that_thinks_is_not_made_to_call() -> None:
    """[TY-26] Anthropic refuses the two together; the tool is offered all the same."""
    thinking = {"thinking": {"type": "adaptive"}}
    body = await body_of(Way(ANTHROPIC), CALLED, structured="tool", params=thinking)
    assert "tool_choice" not in body and wants(body) == "tool"
    body = await body_of(Way(ANTHROPIC), CALLED, structured="tool", params={"thinking": {"type": "disabled"}})
    assert body["tool_choice"] == {"type": "any"}


async def test_a_schema_that_cannot_be_closed_is_a_hint_or_a_tool(caplog: pytest.LogCaptureFixture) -> None:
    """[TY-28] The log says once, where it is not enforced and why."""
    form = {"title": "prices", "type": "object", "additionalProperties": {"type": "number"}}
    turns = [Turn(text='{"tea": 1.5}')] * 2
    async with before(Way(OPENAI), turns) as (client, endpoint):
        for _ in range(2):
            assert (await client.ask("go", output_type=form)).output == {"tea": 1.5}
    sent = endpoint.requests[1].body["response_format"]["json_schema"]
    assert sent["strict"] is False and sent["schema"]["additionalProperties"] == {"type": "number"}
    (line,) = [r.getMessage() for r in caplog.records if "not enforced" in r.getMessage()]
    assert "'prices'" in line and "members of any name" in line
    body = await body_of(Way(ANTHROPIC), Turn(calls=[use("final_answer", {"tea": 1.5})]), form)
    assert wants(body) == "tool"


async def test_what_holds_itself_is_native_where_the_style_has_it() -> None:
    """[TY-28] Recursion is part of OpenAI's strict schemas and not of Anthropic's."""
    text = '{"label": "a", "below": []}'
    body = await body_of(Way(OPENAI), Turn(text=text), Tree)
    assert body["response_format"]["json_schema"]["strict"] is True
    body = await body_of(Way(ANTHROPIC), Turn(calls=[use("final_answer", json.loads(text))]), Tree)
    assert wants(body) == "tool"


@pytest.mark.parametrize("structured", ["native", "tool", "prompt"])
@pytest.mark.parametrize("case", ALL, ids=str)
async def test_every_wire_carries_every_way(case: Case, structured: Any) -> None:
    """[TY-29] Our own and the SDKs', whole and streamed: the same value, bodies of the official types."""
    turn = CALLED if structured == "tool" else ANSWER
    async with asyncio.timeout(PATIENCE), ScriptedEndpoint([turn]) as endpoint:
        model = case.model(endpoint.url, structured=structured)
        async with Client(model=model, builtins=False) as client:
            result: RunResult = await Way(case.style, case.streamed).ask(client, "go", output_type=Finding)
    assert result.output == Finding(risk=3)
    accepted(case.style, case.streamed, endpoint.requests[0].body)


async def test_models_in_this_process_find_the_form_in_the_request() -> None:
    """[TY-30] A FunctionModel may put it into a prompt of its own."""
    forms: list[Any] = []

    def fn(request: ModelRequest) -> str:
        forms.append(request.output)
        return GOOD

    async with Client(model=FunctionModel(fn), builtins=False) as client:
        assert (await client.ask("go", output_type=Finding)).output == Finding(risk=3)
    (form,) = forms
    assert form.name == "Finding" and form.schema["required"] == ["risk"]
    assert '"maximum": 9' in form.instructions


@each_style
async def test_each_model_of_a_fallback_takes_its_own_way(way: Way) -> None:
    """[TY-30] The first is down, the second has no format; both are learnt apart."""
    down = Turn(status=500, body="{}")
    async with ScriptedEndpoint(
        {"a": [down, down, down, ANSWER], "b": [NO_FORMAT[way.style], CALLED]}
    ) as endpoint:
        model = FallbackModel(way.model(endpoint, name="a"), way.model(endpoint, name="b"))
        async with Client(model=model, builtins=False) as client:
            for _ in range(2):
                assert (await client.ask("go", output_type=Finding)).output == Finding(risk=3)
    asked = [(seen.model, wants(seen.body)) for seen in endpoint.requests]
    assert asked == [("a", "native")] * 3 + [("b", "native"), ("b", "tool"), ("a", "native")]


async def test_a_model_given_by_name_is_remembered_by_its_client() -> None:
    """[TY-23] The client has one object for it."""
    async with ScriptedEndpoint([NO_FORMAT[OPENAI], CALLED, CALLED]) as endpoint:
        async with Client(model="openai:m", base_url=endpoint.url, builtins=False) as client:
            await client.ask("go", output_type=Finding)
            await client.ask("go", output_type=Finding)
    assert ways_of(endpoint) == ["native", "tool", "tool"]
    assert isinstance(resolve("openai:m", base_url=endpoint.url), HostedModel)
