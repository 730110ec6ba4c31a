"""OpenTelemetry spans, with the real SDK."""

import asyncio
import json
import logging
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import StatusCode

from tests.observability.spans import Traced, attributes, tracing
from toolnexus import (
    Agent,
    AnthropicModel,
    Budget,
    Client,
    FunctionModel,
    Message,
    ModelError,
    ModelHTTPError,
    ModelRequest,
    ModelResponse,
    OpenAIModel,
    RunResult,
    ToolContext,
    ToolResult,
    Usage,
    assistant,
    pending,
    tool,
)
from toolnexus.models.retry import RetryPolicy
from toolnexus.telemetry.spans import CAPTURE
from toolnexus.testing import ScriptedEndpoint, ScriptedModel, Turn, call, reply

pytestmark = pytest.mark.anyio


def family(request: ModelRequest) -> ModelResponse:
    """The parent starts two children at once; each calls its tool twice in one turn."""
    if request.turn > 1:
        message = assistant(f"{request.agent} is done")
    elif request.agent == "main":
        message = assistant("", *[call("task", id=n, agent=n, prompt="p") for n in ("a", "b")])
    else:
        message = assistant("", *[call("look", id=i, x=i) for i in ("1", "2")])
    used = Usage(prompt_tokens=10, completion_tokens=2, cached_tokens=4, reasoning_tokens=1)
    return ModelResponse(message=message, usage=used)


async def test_a_run_with_two_children_is_one_tree() -> None:
    """[OBS-01] Parent, two children at once, their tools in threads: run, turn, tool, child, own spans."""
    here = threading.get_ident()
    meet = threading.Barrier(4)  # all four calls of both children are in flight at once

    @tool
    def look(x: str, ctx: ToolContext) -> str:
        """Look."""
        assert threading.get_ident() != here
        meet.wait(5)
        with trace.get_tracer("user").start_as_current_span("lookup") as span:
            assert ctx.trace.trace_id == format(span.get_span_context().trace_id, "032x")
            return ctx.trace.span_id

    agents = [Agent(name=n, tools=[look]) for n in ("a", "b")]
    model = FunctionModel(family, name="m")
    with tracing() as traced:
        async with Client(model=model, builtins=False, agents=agents) as client:
            with trace.get_tracer("user").start_as_current_span("request"):
                async with asyncio.timeout(20):
                    result = await client.ask("go", conversation="c-1")
    main = "request > invoke_agent main"
    child = [f"{main} > execute_tool task > invoke_agent {n}" for n in ("a", "b")]
    assert traced.tree() == sorted(
        [
            "request",
            main,
            *[f"{main} > chat m"] * 2,
            *[f"{main} > execute_tool task"] * 2,
            *child,
            *[f"{c} > chat m" for c in child] * 2,
            *[f"{c} > execute_tool look" for c in child] * 2,
            *[f"{c} > execute_tool look > lookup" for c in child] * 2,
        ]
    )
    assert len({span.context.trace_id for span in traced.all if span.context}) == 1
    for run in traced.named("invoke_agent a"):
        above = traced.above(run)
        assert above is not None and attributes(above)["gen_ai.tool.call.id"] == "a"
    ids = {format(s.context.span_id, "016x") for s in traced.named("execute_tool look") if s.context}
    said = {r.output for c in result.sub_agents for m in c.messages for r in m.tool_results}
    assert ids == said  # what `ctx.trace` gave is the span of the call


async def test_tokens_are_on_model_spans_once() -> None:
    """[OBS-02] Summed over all spans they are the usage of the result; also for tokens that we estimated."""

    @tool
    async def look(x: str) -> str:
        """Look."""
        return x

    agents = [Agent(name=n, tools=[look]) for n in ("a", "b")]

    def unreported(request: ModelRequest) -> ModelResponse:
        return replace(family(request), usage=None)

    for fn in (family, unreported):
        with tracing() as traced:
            async with Client(model=FunctionModel(fn), builtins=False, agents=agents) as client:
                usage = (await client.ask("go")).usage
        for key, total in {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "cache_read.input_tokens": usage.cached_tokens,
            "cache_creation.input_tokens": usage.cache_write_tokens,
            "reasoning.output_tokens": usage.reasoning_tokens,
        }.items():
            found = [attributes(s).get(f"gen_ai.usage.{key}", 0) for s in traced.all]
            assert sum(n for n in found if isinstance(n, int)) == total
        with_tokens = {s.name for s in traced.all if any("usage" in k for k in attributes(s))}
        assert with_tokens == {"chat function"} and usage.total_tokens > 0


async def test_spans_follow_the_conventions() -> None:
    """[OBS-03] Names, kinds and attributes; every `gen_ai.` one is in the published list."""

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedEndpoint(
        {"gpt-x": [Turn(calls=[{"name": "look", "args": {}, "id": "c1"}]), Turn(text="x")]}
    )
    with tracing() as traced, model as endpoint:
        async with Client(
            model=OpenAIModel("gpt-x", base_url=endpoint.url, api_key="k" * 20), builtins=False, tools=[look]
        ) as client:
            await client.ask("go", conversation="c-1")
    run = attributes(traced.one("invoke_agent main"))
    assert run.pop("toolnexus.run.id") and run == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "main",
        "gen_ai.conversation.id": "c-1",
        "toolnexus.run.path": "main",
        "toolnexus.run.status": "done",
        "toolnexus.run.turns": 2,
        "toolnexus.run.tool_calls": 1,
    }
    first, _ = traced.named("chat gpt-x")
    said = attributes(first)
    assert first.kind is trace.SpanKind.CLIENT
    assert (said["gen_ai.operation.name"], said["gen_ai.provider.name"]) == ("chat", "openai")
    assert (said["gen_ai.request.model"], said["gen_ai.conversation.id"]) == ("gpt-x", "c-1")
    assert said["gen_ai.response.finish_reasons"] == ("tool_calls",) and said["toolnexus.turn"] == 1
    assert attributes(traced.one("execute_tool look")) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "main",
        "gen_ai.conversation.id": "c-1",
        "toolnexus.tool.source": "native",
        "toolnexus.tool.status": "done",
    }
    known = {v for k, v in vars(gen_ai_attributes).items() if k.startswith("GEN_AI_") and isinstance(v, str)}
    used = {k for s in traced.all for k in attributes(s) if k.startswith("gen_ai.")}
    assert used <= known and "gen_ai.usage.cache_read.input_tokens" in used


async def test_failures_are_marked_with_their_type() -> None:
    """[OBS-04] Tool, model and child: status error and `error.type`; what they say is content."""

    @tool
    async def look() -> str:
        """Look."""
        raise LookupError("row 17 of the patients")

    @tool
    async def soft() -> ToolResult:
        """Soft."""
        return ToolResult(output="no", is_error=True)

    def fn(request: ModelRequest) -> Message | str:
        if request.agent == "x":
            raise ModelHTTPError("you sent: patients", status=503)
        if request.turn == 1:
            return assistant("", call("look"), call("soft"), call("task", agent="x", prompt="p"))
        return "end"

    with tracing() as traced:
        async with Client(
            model=FunctionModel(fn, name="m"), builtins=False, tools=[look, soft], agents=[Agent(name="x")]
        ) as client:
            await client.ask("go")
    failed = {
        s.name: attributes(s).get("error.type") for s in traced.all if s.status.status_code.name == "ERROR"
    }
    http = "toolnexus.errors.ModelHTTPError"
    assert failed == {
        "execute_tool look": "LookupError",
        "execute_tool soft": "tool_error",
        "execute_tool task": "tool_error",
        "chat m": http,
        "invoke_agent x": http,
    }
    assert {attributes(s).get("http.response.status_code") for s in traced.named("chat m")} == {503, None}
    assert "patients" not in str(traced)


async def test_a_hook_that_repairs_a_result_repairs_its_span() -> None:
    """[OBS-04] What counts is the result."""

    @tool
    async def look() -> str:
        """Look."""
        raise LookupError("gone")

    class Repair:
        def after_tool(self, ctx: ToolContext, result: ToolResult) -> ToolResult:
            return ToolResult(output="from the cache")

    with tracing() as traced:
        model = ScriptedModel([reply("", call("look")), reply("end")])
        async with Client(model=model, builtins=False, tools=[look], hooks=[Repair()]) as client:
            await client.ask("go")
    span = traced.one("execute_tool look")
    assert span.status.status_code is StatusCode.UNSET and "error.type" not in attributes(span)


async def test_unfinished_runs_say_so() -> None:
    """[OBS-05] Incomplete, pending and cancelled are attributes, not errors."""

    @tool
    async def ask() -> ToolResult:
        """Ask."""
        return pending(kind="question", prompt="Which?")

    @tool
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return ""

    @tool
    async def look() -> str:
        """Look."""
        return ""

    async def run(name: str, **options: Any) -> tuple[dict[str, object], dict[str, object]]:
        with tracing() as traced:
            model = ScriptedModel([reply("", call(name))])
            async with Client(model=model, builtins=False, tools=[ask, hang, look], **options) as client:
                await client.ask("go")
        assert not [s for s in traced.all if s.status.status_code is StatusCode.ERROR]
        return attributes(traced.one("invoke_agent main")), attributes(
            traced.named(f"execute_tool {name}")[0]
        )

    run_said, tool_said = await run("ask")
    assert run_said["toolnexus.run.status"] == tool_said["toolnexus.tool.status"] == "pending"
    run_said, tool_said = await run("hang", budget=Budget(seconds=0.05))
    assert (run_said["toolnexus.run.status"], run_said["toolnexus.run.limit"]) == ("incomplete", "seconds")
    assert tool_said["toolnexus.cancelled"] is True
    run_said, tool_said = await run("look", max_turns=1)
    assert tool_said["toolnexus.tool.status"] == "done"
    assert (run_said["toolnexus.run.status"], run_said["toolnexus.run.limit"]) == ("incomplete", "max_turns")


async def test_a_cancelled_run_closes_all_its_spans() -> None:
    """[OBS-05] Every span is exported, marked, and what was current before is current again."""
    inside = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        inside.set()
        await asyncio.Event().wait()
        return ""

    def fn(request: ModelRequest) -> Message | str:
        name = "hang" if request.agent == "x" else "task"
        return assistant("", call(name, **({} if name == "hang" else {"agent": "x", "prompt": "p"})))

    with tracing() as traced:
        async with Client(
            model=FunctionModel(fn, name="m"), builtins=False, agents=[Agent(name="x", tools=[hang])]
        ) as client:
            task = asyncio.create_task(client.ask("go"))
            async with asyncio.timeout(5):
                await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert trace.get_current_span() is trace.INVALID_SPAN
    way = "invoke_agent main > execute_tool task > invoke_agent x > execute_tool hang"
    assert way in traced.tree()
    marked = {s.name for s in traced.all if attributes(s).get("toolnexus.cancelled")}
    assert marked == {"invoke_agent main", "execute_tool task", "invoke_agent x", "execute_tool hang"}


async def test_content_is_left_out_unless_the_host_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """[OBS-06] Prompts, replies, arguments and results only with the variable of the conventions."""

    @tool
    async def look(what: str) -> str:
        """Look."""
        return "the RESULT"

    async def shown() -> Traced:
        with tracing() as traced:
            model = ScriptedModel([reply("", call("look", what="ARGUMENT")), reply("the REPLY")])
            async with Client(model=model, builtins=False, tools=[look], system_prompt="SYSTEM") as client:
                await client.ask("PROMPT")
        return traced

    words = ("PROMPT", "SYSTEM", "ARGUMENT", "RESULT", "REPLY")
    for setting, wanted in {
        "": False,
        "false": False,
        "no_content": False,
        "true": True,
        "SPAN_ONLY": True,
    }.items():
        monkeypatch.setenv(CAPTURE, setting)
        text = str(await shown())
        assert [word in text for word in words] == [wanted] * 5, setting
    monkeypatch.delenv(CAPTURE)
    assert "PROMPT" not in str(await shown())
    monkeypatch.setenv(CAPTURE, "true")
    first, second = map(attributes, (await shown()).named("chat scripted"))
    prompt = {"role": "user", "parts": [{"type": "text", "content": "PROMPT"}]}
    assert json.loads(str(first["gen_ai.input.messages"])) == [prompt]
    assert json.loads(str(first["gen_ai.system_instructions"])) == [{"type": "text", "content": "SYSTEM"}]
    (answer,) = json.loads(str(first["gen_ai.output.messages"]))
    assert answer["finish_reason"] == "tool_calls"
    assert [p["arguments"] for p in answer["parts"]] == [{"what": "ARGUMENT"}]
    result = json.loads(str(second["gen_ai.input.messages"]))[-1]["parts"][0]
    assert (result["type"], result["response"]) == ("tool_call_response", "the RESULT")


async def test_retries_are_events_of_the_model_span() -> None:
    """[OBS-07] On both styles, whether the run is streamed or not; the request stays one."""
    for make in (OpenAIModel, AnthropicModel):
        for streamed in (False, True):
            turns = [Turn(status=503), Turn(text="at last")]
            with tracing() as traced, ScriptedEndpoint(turns) as endpoint:
                policy = RetryPolicy(retries=1, base=0.001)
                model = make("m", base_url=endpoint.url, api_key="k" * 20, retries=policy)
                async with Client(model=model, builtins=False) as client:
                    if streamed:
                        async with client.stream("go") as stream:
                            _ = [event async for event in stream]
                    else:
                        await client.ask("go")
                assert (
                    len(endpoint.requests) == 2 and endpoint.requests[0].body.get("stream", False) is streamed
                )
            (event,) = traced.one("chat m").events
            assert event.name == "toolnexus.retry" and dict(event.attributes or {})["attempt"] == 1
            assert dict(event.attributes or {})["http.response.status_code"] == 503


class Broken(SpanProcessor):
    """Foreign code that fails wherever it can."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("no disk")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("no disk")


async def test_a_broken_tracer_changes_no_run(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[OBS-08] What processors and samplers raise is logged; the result is the same."""

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look."""
        return ctx.trace.trace_id

    async def run() -> RunResult:
        model = ScriptedModel([reply("", call("look")), reply("end")])
        async with Client(model=model, builtins=False, tools=[look]) as client:
            return await client.ask("go")

    with tracing(Broken()), caplog.at_level(logging.WARNING, "toolnexus.telemetry"):
        result = await run()
    assert result.status == "done" and not result.messages[2].tool_results[0].is_error
    assert "RuntimeError" in caplog.text and "no disk" not in caplog.text

    def broken() -> None:
        raise RuntimeError("no such provider")

    monkeypatch.setattr(trace, "get_tracer_provider", broken)
    assert (await run()).status == "done" and "nothing is traced: RuntimeError" in caplog.text


async def test_without_a_host_that_traces_there_are_no_spans() -> None:
    """[OBS-09] The API alone, which `mcp` loads, makes no span; `ctx.trace` still has ids of its own."""
    seen: list[tuple[str, object]] = []

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append((ctx.trace.trace_id, ctx.context.run.tracing))
        return ctx.trace.span_id

    assert "opentelemetry.trace" in sys.modules
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "_TRACER_PROVIDER", None)
        model = ScriptedModel([reply("", call("look"), call("look")), reply("end")])
        async with Client(model=model, builtins=False, tools=[look]) as client:
            result = await client.ask("go")
    (first, nobody), second = seen
    assert nobody is None and second == (first, None) and len(first) == 32
    assert len({r.output for r in result.messages[2].tool_results}) == 2


def test_a_host_without_opentelemetry_never_loads_it() -> None:
    """[OBS-09] Neither the API nor our spans are imported."""
    program = (
        "import asyncio, sys, toolnexus\n"
        "from toolnexus.testing import ScriptedModel, reply\n"
        "async def main():\n"
        "    async with toolnexus.Client(model=ScriptedModel([reply('x')])) as client:\n"
        "        await client.ask('go')\n"
        "        client.metrics()\n"
        "asyncio.run(main())\n"
        "print([m for m in sys.modules if 'opentelemetry' in m or m.startswith('toolnexus.telemetry.')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['toolnexus.telemetry.choose', 'toolnexus.telemetry.exposition']"


async def test_tracing_starts_with_the_next_ask() -> None:
    """[OBS-09] A host may set its provider after the client was opened."""
    model = ScriptedModel([reply("x")] * 3)
    async with Client(model=model, builtins=False) as client:
        await client.ask("go")
        with tracing() as traced:
            await client.ask("go")
        await client.ask("go")
    assert traced.tree() == ["invoke_agent main", "invoke_agent main > chat scripted"]


async def test_a_call_of_the_host_is_a_span_too() -> None:
    """[OBS-01] `toolkit.execute` outside a run."""

    @tool
    async def look() -> str:
        """Look."""
        return "x"

    with tracing() as traced:
        async with Client(model=ScriptedModel([]), builtins=False, tools=[look]) as client:
            with trace.get_tracer("user").start_as_current_span("request"):
                await client.toolkit.execute("look")
    assert traced.tree() == ["request", "request > execute_tool look"]


async def test_a_failed_top_run_is_an_error_span() -> None:
    """[OBS-04] The error that the caller gets is the one on the span."""

    def fn(request: ModelRequest) -> str:
        raise ModelError("down")

    with tracing() as traced:
        async with Client(model=FunctionModel(fn), builtins=False) as client:
            with pytest.raises(ModelError):
                await client.ask("go")
    span = traced.one("invoke_agent main")
    assert span.status.status_code is StatusCode.ERROR and span.status.description is None
    assert attributes(span)["error.type"] == "toolnexus.errors.ModelError"
    assert attributes(span)["toolnexus.run.status"] == "error"
