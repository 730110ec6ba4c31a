"""`inference` in scripts, in JavaScript and in Lua."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tests.graph.inference.worlds import Host, served
from toolnexus import FunctionModel, ModelRequest, OpenAIModel, graph
from toolnexus.errors import ModelHTTPError
from toolnexus.graph import Board, GraphRunError, Services, Target
from toolnexus.graph.scripts import JsRuntime, LuaRuntime
from toolnexus.testing import ScriptedEndpoint, ScriptedModel, Turn, call, reply

pytestmark = pytest.mark.anyio

SOUND = base64.b64encode(b"RIFF\0\0\0\0WAVE" + b"\0" * 24).decode()
EXACT = "model: {id: {provider: 'p', name: 'm'}}"
ASK = "input: {role: 'user', content: {content: 'hi'}}"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def scripts(anyio_backend: str) -> AsyncIterator[Mapping[str, Any]]:
    runtimes = {"js": JsRuntime(pool_size=1), "lua": LuaRuntime(pool_size=1)}
    yield runtimes
    for runtime in runtimes.values():
        await runtime.close()


async def run(
    scripts: Mapping[str, Any],
    source: str,
    services: Services,
    *,
    host: Host | None = None,
    runtime: str = "js",
) -> Board:
    """The board that a script leaves; what it stores as `out` is what it found."""
    config = {"runtime": runtime, "source": source}
    document = {"name": "g", "entry": "s", "nodes": [{"id": "s", "type": "script", "config": config}]}
    services = Services(
        models=services.models,
        router=services.router,
        extensions=services.extensions,
        toolkit=services.toolkit,
        scripts=scripts,
    )
    definition = graph.GraphDefinition.from_data(document)
    built = graph.build(definition, graph.Registry.standard(services), script_runtime_name=runtime)
    return await built.run(Board(), host=host, run_id="run-1")


def out(expression: str) -> str:
    return f"board.setVar('out', {expression})"


async def failing(scripts: Mapping[str, Any], source: str, services: Services) -> GraphRunError:
    with pytest.raises(GraphRunError) as caught:
        await run(scripts, source, services)
    return caught.value


async def test_a_script_asks_the_model_that_it_names(scripts: Mapping[str, Any]) -> None:
    """[GR-370] generate: the canonical response; what it used is reported."""
    model, host = ScriptedModel(["hello"]), Host()
    source = out(f"inference.generate({{{EXACT}, context: [], {ASK}}})")
    board = await run(scripts, source, Services(models={"p/m": model}), host=host)
    assert board["out"] == {
        "message": {"role": "assistant", "content": {"parts": [{"type": "text", "text": "hello"}]}},
        "finish_reason": "completed",
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
        "metadata": {"model": {"provider": "p", "name": "m"}, "operation": "generate"},
    }
    assert host.usage == [(10, 5)]


async def test_the_router_says_whom_it_asked(scripts: Mapping[str, Any]) -> None:
    """[GR-370] route: the response and a trace; the context may be messages of a channel."""
    down = ScriptedModel([ModelHTTPError("busy", status=429)])
    up = ScriptedModel([reply("fine")])
    source = """
        board.appendChannel(board.MAIN_CHANNEL, [
          {role: "system", content: {parts: [{type: "text", text: "be kind"}]}},
          {role: "user", content: {parts: [{type: "text", text: "one"}]}},
          {role: "assistant", content: {parts: [{type: "text", text: "two"}]}}]);
        var resp = inference.route({
          context: board.channel(board.MAIN_CHANNEL), model_hint: "down",
          input: {role: "user", content: {content: {parts: [{type: "text", text: "three"}]},
                  intent: {text: {temperature: 0.5, max_output_tokens: 9}}}}});
        board.setVar("out", resp.trace);
        board.appendChannel(board.MAIN_CHANNEL, resp.message);
    """
    board = await run(scripts, source, Services(models={"p/up": up, "q/down": down}))
    assert board["out"]["selected"] == {"id": {"provider": "p", "name": "up"}}
    failed, answered = board["out"]["attempts"]
    assert (failed["outcome"], failed["kind"], answered["outcome"]) == ("failed", "rate_limit", "succeeded")
    request = up.requests[0]
    assert (request.system, [m.text for m in request.messages]) == ("be kind", ["one", "two", "three"])
    assert request.options == {"temperature": 0.5, "max_completion_tokens": 9}
    assert board.main[-1].text == "fine"


async def test_lua_asks_too(scripts: Mapping[str, Any]) -> None:
    """[GR-370] Values and errors are returned; an empty table is an empty object where one stands."""
    source = """
        local resp, err = inference.route({input = {role = "user", content = {content = "hi",
            intent = {text = {max_output_tokens = 9.0, tools = {}}}}}})
        board.setVar("out", resp.finish_reason)
        local none, problem = inference.generate({
            input = {role = "user", content = {content = "hi", intent = {text = {}}}}})
        board.setVar("problem", problem)
    """
    model = ScriptedModel(["hello"])
    board = await run(scripts, source, Services(models=model), runtime="lua")
    assert board["out"] == "completed"
    assert "model" in str(board["problem"])
    assert model.requests[0].options == {"max_completion_tokens": 9}


async def test_a_tool_loop_lives_in_the_script(scripts: Mapping[str, Any]) -> None:
    """[GR-371] Declared tools come back as calls; the next request takes the results."""
    model = ScriptedModel([reply(call("look", id="c1", at="sky")), "blue"])
    source = """
        var tool = {name: "look", description: "Looks.", input_schema: {type: "object"}};
        var first = inference.route({input: {role: "user", content: {content: "which colour?",
          intent: {text: {tools: [tool]}}}}});
        var call = first.message.content.parts[0].call;
        var second = inference.route({
          context: [{role: "user", content: {parts: [{type: "text", text: "which colour?"}]}}, first.message],
          input: {role: "tool", content: {content: {parts: [{type: "tool_result",
            result: {call_id: call.id, content: {parts: [{type: "text", text: "blue"}]}}}]},
            intent: {text: {tools: [tool]}}}}});
        board.setVar("out", [first.finish_reason, call.name, second.message.content.parts[0].text]);
    """
    board = await run(scripts, source, Services(models=model))
    assert board["out"] == ["tool_calls", "look", "blue"]
    assert [m.role for m in model.requests[1].messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("source", "kind", "problem"),
    [
        (f"inference.generate({{{ASK}}})", "validation", "model"),
        (f"inference.route({{{EXACT}, {ASK}}})", "validation", "model"),
        ("inference.route({input: {role: 'user'}})", "validation", "content"),
        ("inference.route({input: {role: 'bot', content: {content: 'x'}}})", "validation", "role"),
        (f"inference.route({{{ASK}, inputs: 1}})", "validation", "inputs"),
        (f"inference.route({{{ASK}, context: [{{role: 'user'}}]}})", "validation", "context"),
        ("inference.route(3)", "validation", "request"),
        (f"inference.route({{{ASK}, extensions: [{{provider: 'p', id: 'x'}}]}})", "validation", "p/x"),
        ("inference.generate({model: {id: {provider: 'p', name: 'z'}}, " + ASK + "})", "not_found", "p/z"),
        ("inference.inspect({id: {provider: 'p', name: 'z'}})", "not_found", "p/z"),
        ("inference.routeEmbed({items: [{content: 'x'}]})", "validation", "embedding"),
        ("inference.routeTranscribe({audio: {data: '" + SOUND + "'}})", "validation", "transcription"),
        ("inference.routeTranscribe({audio: 3})", "validation", "audio"),
        ("inference.routeTranscribeSession({input_format: 'wav'})", "validation", "transcription"),
    ],
)
async def test_a_request_is_read_strictly(
    scripts: Mapping[str, Any], source: str, kind: str, problem: str
) -> None:
    """[GR-372] A failure keeps its kind, and names what is wrong."""
    error = await failing(scripts, source, Services(models={"p/m": ScriptedModel([])}))
    assert (error.kind, problem in str(error)) == (kind, True)


async def test_what_is_not_wired_is_not_available(scripts: Mapping[str, Any]) -> None:
    """[GR-372] Models without a router, and a router without models."""
    model = ScriptedModel(["hi"])
    error = await failing(scripts, f"inference.route({{{ASK}}})", Services(models=model, router=False))
    assert error.kind == "not_available"
    source = f"inference.generate({{{EXACT}, {ASK}}})"
    error = await failing(scripts, source, Services(router=[model]))
    assert error.kind == "not_available"
    error = await failing(scripts, "inference.models()", Services(router=[model]))
    assert error.kind == "not_available"


async def test_a_failed_request_can_be_caught(scripts: Mapping[str, Any]) -> None:
    """[GR-372] Its kind is on the error; a tool that was not offered says so in its text."""
    source = f"""
        var kinds = [];
        for (var n = 0; n < 2; n++) {{
          try {{ inference.route({{{ASK}}}) }} catch (e) {{ kinds.push([e.kind, String(e.message)]) }}
        }}
        board.setVar("out", kinds);
    """
    host = Host()
    model = ScriptedModel([ModelHTTPError("no", status=401), reply(call("ghost"))])
    board = await run(scripts, source, Services(models=model), host=host)
    assert [kind for kind, _ in board["out"]] == ["unauthorized", "internal"]
    assert "undefined_tool" in board["out"][1][1]
    assert len(host.usage) == 1


async def test_a_spent_budget_ends_the_node(scripts: Mapping[str, Any]) -> None:
    """[GR-372] A script cannot catch it."""
    source = f"try {{ inference.route({{{ASK}}}) }} catch (e) {{ board.setVar('out', 1) }}"
    with pytest.raises(GraphRunError) as caught:
        await run(scripts, source, Services(models=ScriptedModel(["hi"])), host=Host(limit=1))
    assert caught.value.kind == "budget_exceeded"


async def test_a_reply_can_be_read_piece_by_piece(scripts: Mapping[str, Any]) -> None:
    """[GR-373] next gives events and null at the end, then result is there; close may come twice."""

    async def answer(request: ModelRequest) -> Any:
        assert request.sink is not None
        request.sink.text("ha")
        request.sink.text("lf")
        return "half"

    source = f"""
        var s = inference.routeStream({{{ASK}}}), found = [], ev;
        var early = null;
        try {{ s.result() }} catch (e) {{ early = e.kind }}
        while ((ev = s.next()) !== null) found.push(ev);
        var resp = s.result();
        s.close(); s.close();
        board.setVar("out", {{found: found, early: early, trace: resp.trace.selected,
          text: resp.message.content.parts[0].text}});
    """
    host = Host()
    board = await run(scripts, source, Services(models={"p/m": FunctionModel(answer)}), host=host)
    assert board["out"]["found"][:2] == [
        {"delta": {"type": "text", "text": "ha"}},
        {"delta": {"type": "text", "text": "lf"}},
    ]
    assert board["out"]["found"][2]["finish_reason"] == "completed"
    assert (board["out"]["early"], board["out"]["text"]) == ("validation", "half")
    assert board["out"]["trace"] == {"id": {"provider": "p", "name": "m"}}
    assert (len(host.usage), host.types) == (1, [])


async def test_calls_come_at_the_end_of_a_stream(scripts: Mapping[str, Any]) -> None:
    """[GR-373] As whole parts."""
    source = """
        var s = inference.stream({model: {id: {provider: "p", name: "m"}}, input: {role: "user",
          content: {content: "hi", intent: {text: {tools: [{name: "look"}]}}}}}), found = [], ev;
        while ((ev = s.next()) !== null) found.push(ev);
        board.setVar("out", found);
    """
    board = await run(
        scripts, source, Services(models={"p/m": ScriptedModel([reply(call("look", id="c1"))])})
    )
    assert board["out"][0]["delta"]["call"]["name"] == "look"
    assert board["out"][1]["finish_reason"] == "tool_calls"


async def test_a_stream_that_breaks_fails_where_it_is_read(scripts: Mapping[str, Any]) -> None:
    """[GR-373] The pieces so far come first."""
    source = f"""
        var s = inference.routeStream({{{ASK}}}), found = [], kind;
        try {{ for (;;) {{ var ev = s.next(); if (ev === null) break; found.push(ev.delta.text) }} }}
        catch (e) {{ kind = e.kind }}
        board.setVar("out", [found.join(""), kind]);
    """
    async with served("openai", [{"text": "one two three four", "drop_after": 3}]) as (_, model):
        board = await run(scripts, source, Services(models=model))
    assert board["out"] == ["one two three fo"[: len(board["out"][0])], "not_available"]


@pytest.mark.parametrize("ending", ["s.close()", "1", "throw new Error('x')", "signal.done()"])
async def test_a_stream_that_is_left_closes_its_request(scripts: Mapping[str, Any], ending: str) -> None:
    """[GR-373] By close, and when the script ends, whatever way."""
    async with ScriptedEndpoint([Turn(hang=True)]) as endpoint:
        model = OpenAIModel("m", base_url=endpoint.url, api_key="k")
        source = f"var s = inference.routeStream({{{ASK}}}); board.setVar('x', 1); {ending}"
        try:
            await run(scripts, source, Services(models=model))
        except GraphRunError as error:
            assert error.kind == "internal"
        await endpoint.until(lambda: all(seen.gone for seen in endpoint.requests))
        await model.aclose()


async def test_scripts_see_which_models_there_are(scripts: Mapping[str, Any]) -> None:
    """[GR-374] models and inspect: names, operations, outputs, limits."""
    small = Target(model=ScriptedModel([]), provider="p", name="m", limits={"max_input_tokens": 100})
    embedder = Target(model=ScriptedModel([]), provider="p", name="e", profile="x", outputs=("embedding",))
    source = out("[inference.models(), inference.inspect({id: {provider: 'p', name: 'e'}, profile: 'x'})]")
    board = await run(scripts, source, Services(models=[small, embedder]))
    models, one = board["out"]
    assert models[0] == {
        "id": {"provider": "p", "name": "m"},
        "operations": ["generate"],
        "capabilities": {"outputs": ["text"]},
        "limits": {"max_input_tokens": 100},
    }
    assert (one["operations"], one["profile"]) == (["embed"], "x")
    assert models[1] == one


async def test_a_request_can_be_explained_without_being_sent(scripts: Mapping[str, Any]) -> None:
    """[GR-375] What is sent, what is left out and why, what cannot be; the router says whom it would ask."""
    source = """
        var req = {context: [], request_metadata: {a: "b"}, extensions: [{provider: "q", id: "x"}],
          input: {role: "user", content: {content: "hi", intent: {text: {temperature: 0.5}}}}};
        var image = {input: {role: "user", content: {content: "hi", intent: {image: {seed: 1}}}}};
        var exact = Object.assign({model: {id: {provider: "p", name: "m"}}}, req);
        board.setVar("out", {exact: inference.explain(exact), stream: inference.explainStream(exact),
          routed: inference.routeExplain(req), routedStream: inference.routeExplainStream(req),
          image: inference.routeExplain(image).explanation});
    """
    async with served("openai", []) as (endpoint, model):
        first = Target(model=model, provider="p", name="m", limits={"max_input_tokens": 7})
        services = Services(models=[first, ScriptedModel([])], extensions={"q/x": lambda fields: {}})
        board = await run(scripts, source, services)
    assert endpoint.requests == []
    found = board["out"]
    exact = found["exact"]
    assert (exact["accepted"], exact["operation"]) == (True, "generate")
    decisions = {d["field"]: d for d in exact["decisions"]}
    assert decisions["intent.text.temperature"] == {
        "field": "intent.text.temperature",
        "disposition": "native",
    }
    assert decisions["request_metadata"]["disposition"] == "dropped"
    assert decisions["extensions.q/x"]["disposition"] == "dropped"
    assert exact == found["stream"] == found["routed"]["explanation"] == found["routedStream"]["explanation"]
    assert found["routed"]["limits"] == {"max_input_tokens": 7}
    assert found["routed"]["decision"]["selected"] == {"id": {"provider": "p", "name": "m"}}
    assert len(found["routed"]["decision"]["candidates"]) == 2
    assert found["image"]["accepted"] is False
    assert "seed" in found["image"]["decisions"][-1]["reason"]


async def test_texts_become_vectors(scripts: Mapping[str, Any]) -> None:
    """[GR-376] embed and its twins."""
    source = """
        var data = {content: {parts: [{type: "data", data: {b: 1}}]}};
        var req = {items: [{content: "a"}, data], dimensions: 2};
        var exact = Object.assign({model: {id: {provider: "openai", name: "m"}}}, req);
        board.setVar("out", {one: inference.embed(exact), two: inference.routeEmbed(req),
          three: inference.explainEmbed(exact), four: inference.routeExplainEmbed(req)});
    """
    host = Host()
    turn = Turn(vectors=[[1, 0], [0, 1]], usage=(4, 0))
    async with served("openai", [turn, turn]) as (endpoint, model):
        board = await run(scripts, source, Services(models=model), host=host)
    found = board["out"]
    assert found["one"] == {
        "embeddings": [{"vector": [1.0, 0.0]}, {"vector": [0.0, 1.0]}],
        "usage": {"input_tokens": 4, "item_count": 2},
        "metadata": {"model": {"provider": "openai", "name": "m"}, "operation": "embed"},
    }
    assert found["two"]["trace"]["selected"] == {"id": {"provider": "openai", "name": "m"}}
    assert (found["three"]["operation"], found["three"]["accepted"]) == ("embed", True)
    assert found["four"]["decision"]["selected"] == {"id": {"provider": "openai", "name": "m"}}
    assert endpoint.requests[0].body["input"] == ["a", '{"b": 1}']
    assert host.usage == [(4, 0), (4, 0)]


async def test_speech_is_written_down(scripts: Mapping[str, Any]) -> None:
    """[GR-377] transcribe and its twins; a source or a part."""
    source = f"""
        var source = {{data: "{SOUND}", mime_type: "audio/wav"}};
        var req = {{audio: source, language: "en", timestamps: "segment"}};
        var part = {{audio: {{type: "audio", source: source}}}};
        var exact = Object.assign({{model: {{id: {{provider: "openai", name: "m"}}}}}}, part);
        board.setVar("out", {{one: inference.transcribe(exact), two: inference.routeTranscribe(req),
          three: inference.explainTranscribe(exact), four: inference.routeExplainTranscribe(req)}});
    """
    spans = {"duration": 1.5, "language": "en", "segments": [{"text": "hello", "start": 0, "end": 1.5}]}
    async with served("openai", [Turn(text="hello"), Turn(text="hello", extra=spans)]) as (endpoint, model):
        board = await run(scripts, source, Services(models=model))
    found = board["out"]
    assert (found["one"]["text"], found["one"]["usage"]["total_tokens"]) == ("hello", 15)
    assert (found["two"]["duration_millis"], found["two"]["language"]) == (1500, "en")
    assert found["two"]["segments"] == [{"text": "hello", "start_millis": 0, "end_millis": 1500}]
    assert found["two"]["trace"]["attempts"][0]["outcome"] == "succeeded"
    assert (found["three"]["operation"], found["four"]["limits"]) == ("transcribe", {})
    assert len(endpoint.requests) == 2


async def test_speech_may_come_in_pieces(scripts: Mapping[str, Any]) -> None:
    """[GR-378] send, finish, next, result: one final event at the end of the input."""
    half = base64.b64encode(b"\0\1" * 8).decode()
    source = f"""
        var form = {{encoding: "pcm", sample_rate_hz: 8000}};
        var s = inference.routeTranscribeSession({{input_format: form, language: "en"}});
        s.send({{data: "{half}", sequence: 1}}); s.send({{data: "{half}", sequence: 2}});
        s.finish();
        var ev = s.next(), end = s.next(), resp = s.result();
        s.close(); s.close();
        board.setVar("out", [ev, end, resp.text, resp.trace.selected.id.name]);
    """
    async with served("openai", [Turn(text="hello")]) as (endpoint, model):
        board = await run(scripts, source, Services(models=model))
    assert board["out"] == [{"type": "final", "text": "hello"}, None, "hello", "m"]
    assert endpoint.requests[0].body["file"] == ["audio.wav", "audio/wav", 44 + 32]
    assert endpoint.requests[0].body["language"] == "en"


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("s.result()", "validation"),
        ("s.next()", "validation"),
        ("s.send({data: '!!'})", "validation"),
        ("s.send({})", "validation"),
        ("s.send({data: 'AAAA', sequence: 2}); s.send({data: 'AAAA', sequence: 2})", "validation"),
        ("s.finish(); s.finish(); s.send({data: 'AAAA'})", "validation"),
        ("s.interrupt(); s.next()", "aborted"),
        ("s.interrupt(); s.result()", "aborted"),
        ("s.interrupt(); s.send({data: 'AAAA'})", "validation"),
        ("s.close(); s.next()", "validation"),
    ],
)
async def test_a_session_refuses_wrong_uses(scripts: Mapping[str, Any], source: str, kind: str) -> None:
    """[GR-378] And an interrupt shows in what is asked next."""
    begin = "var s = inference.routeTranscribeSession({input_format: 'mp3'}); "
    model = OpenAIModel("m", base_url="http://127.0.0.1:1", api_key="k")
    error = await failing(scripts, begin + source, Services(models=model))
    assert error.kind == kind
    await model.aclose()


async def test_images_and_speech_from_scripts(scripts: Mapping[str, Any]) -> None:
    """[GR-370] Every intent of the node."""
    source = """
        var image = inference.route({input: {role: "user", content: {content: "cat", intent: {image: {}}}}});
        var spoken = {content: "hi", intent: {audio: {voice: "x"}}};
        var audio = inference.route({input: {role: "user", content: spoken}});
        board.setVar("out", [image.message.content.parts[0].type, audio.message.content.parts[0].type]);
    """
    turns = [Turn(images=[{"url": "http://images/1.png"}]), Turn(audio=SOUND)]
    async with served("openai", turns) as (_, model):
        board = await run(scripts, source, Services(models=model))
    assert board["out"] == ["image", "audio"]
