"""`inference`: requests to models from scripts, one for each call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

from pydantic import BaseModel

from toolnexus.core.content import part_to_wire
from toolnexus.core.messages import MediaPart, ReasoningPart, TextPart
from toolnexus.core.usage import Usage
from toolnexus.graph.errors import GraphRunError
from toolnexus.graph.inference import request as requests
from toolnexus.graph.inference.call import Call, chosen, prepared
from toolnexus.graph.inference.explain import decision, explained
from toolnexus.graph.inference.generate import generate
from toolnexus.graph.inference.other import OtherCall, embed, prepared_other, transcribe
from toolnexus.graph.inference.reply import Rejected, Reply, usage_to_wire
from toolnexus.graph.inference.router import Trace
from toolnexus.graph.inference.session import Session
from toolnexus.graph.inference.streaming import Streamed
from toolnexus.graph.inference.targets import catalog, exact
from toolnexus.graph.scripts.bindings import Binding
from toolnexus.graph.scripts.invocation import Function, Invocation
from toolnexus.graph.scripts.runtime import Handle
from toolnexus.graph.services import Services

M = TypeVar("M", bound=BaseModel)
FAILS = "value, err"
"""What a method returns in Lua that can fail."""


def inference(invocation: Invocation, services: Services) -> Binding:
    """The global. Of each pair of methods the first asks the `model` of its request, the second whom the
    router finds, and tells in `trace` who was asked. Usage is reported to the host with each call."""
    it = _Inference(invocation, services)
    methods: dict[str, Callable[..., Any]] = {"models": it.models, "inspect": it.inspect}
    for exact_name, routed_name, method in (
        ("generate", "route", it.generate),
        ("explain", "routeExplain", it.explain),
        ("stream", "routeStream", it.stream),
        ("explainStream", "routeExplainStream", it.explain),
        ("embed", "routeEmbed", it.embed),
        ("explainEmbed", "routeExplainEmbed", it.explain_embed),
        ("transcribe", "routeTranscribe", it.transcribe),
        ("explainTranscribe", "routeExplainTranscribe", it.explain_transcribe),
        ("transcribeSession", "routeTranscribeSession", it.session),
    ):
        methods[exact_name], methods[routed_name] = _twins(method)
    return Binding("inference", {name: Function(method, FAILS) for name, method in methods.items()})


def _twins(method: Callable[[bool, Any], Any]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    return lambda request: method(False, request), lambda request: method(True, request)


class _Inference:
    """The methods; `routed` tells the twins apart."""

    def __init__(self, invocation: Invocation, services: Services) -> None:
        self._invocation = invocation
        self._ctx = invocation.ctx
        self._services = services

    async def generate(self, routed: bool, request: Any) -> dict[str, Any]:
        call = self._prepared(routed, request)
        return self._told(await self._asked(call), call.trace, routed)

    def explain(self, routed: bool, request: Any) -> dict[str, Any]:
        return _explained(self._prepared(routed, request), "generate", routed)

    def stream(self, routed: bool, request: Any) -> Handle:
        call = self._prepared(routed, request)
        stream = Streamed(lambda sink: generate(self._ctx.rail, call, sink))
        it = _Stream(stream, lambda reply: self._told(reply, call.trace, routed), self._report)
        return self._invocation.handle(
            {
                "next": Function(it.next, FAILS),
                "result": Function(it.result, FAILS),
                "close": Function(it.close, "err"),
            },
            it.close,
        )

    async def embed(self, routed: bool, request: Any) -> dict[str, Any]:
        return await self._other(self._prepared_other(requests.EmbedRequest, routed, request), routed)

    def explain_embed(self, routed: bool, request: Any) -> dict[str, Any]:
        return _explained(self._prepared_other(requests.EmbedRequest, routed, request), "embed", routed)

    async def transcribe(self, routed: bool, request: Any) -> dict[str, Any]:
        return await self._other(self._prepared_other(requests.TranscribeRequest, routed, request), routed)

    def explain_transcribe(self, routed: bool, request: Any) -> dict[str, Any]:
        call = self._prepared_other(requests.TranscribeRequest, routed, request)
        return _explained(call, "transcribe", routed)

    def session(self, routed: bool, request: Any) -> Handle:
        asked = self._read(requests.SessionRequest, routed, request)
        given = {name: getattr(asked, name) for name in requests.SessionRequest.model_fields}
        form = given.pop("input_format")

        async def write_down(audio: MediaPart) -> dict[str, Any]:
            whole = requests.TranscribeRequest.model_construct(audio=audio, **given)
            return await self._other(prepared_other(self._services, whole), routed)

        chosen(self._services, asked, ("transcription",))
        session = Session(form, write_down)

        def send(chunk: Any) -> None:
            session.send(requests.read(requests.AudioChunk, chunk, "the chunk"))

        return self._invocation.handle(
            {
                "send": Function(send, "err"),
                "next": Function(session.next, FAILS),
                "result": Function(session.result, FAILS),
                "interrupt": Function(session.interrupt, "err"),
                "finish": Function(session.finish, "err"),
                "close": Function(session.close, "err"),
            },
            session.close,
        )

    def models(self) -> list[dict[str, Any]]:
        return [target.descriptor for target in catalog(self._services)]

    def inspect(self, model: Any) -> dict[str, Any]:
        ref = requests.read(requests.ModelRef, model, "the model")
        return exact(self._services, ref.id.provider, ref.id.name, ref.profile).descriptor

    # --- one request

    def _read(self, kind: type[M], routed: bool, request: Any) -> M:
        """The request, which names a model or none. Raises `GraphRunError` (validation)."""
        asked = requests.read(kind, request, "the request")
        if routed == (getattr(asked, "model", None) is not None):
            problem = "names a model; the router finds one" if routed else "must name its model"
            raise GraphRunError(f"the request {problem}", kind="validation")
        return asked

    def _prepared(self, routed: bool, request: Any) -> Call:
        return prepared(self._services, self._read(requests.GenerateRequest, routed, request))

    def _prepared_other(self, kind: type[M], routed: bool, request: Any) -> OtherCall:
        asked: Any = self._read(kind, routed, request)
        return prepared_other(self._services, asked)

    async def _asked(self, call: Call) -> Reply:
        try:
            reply = await generate(self._ctx.rail, call)
        except Rejected as rejected:
            await self._report(rejected.usage)
            raise
        await self._report(reply.usage)
        return reply

    async def _other(self, call: OtherCall, routed: bool) -> dict[str, Any]:
        ask = embed if call.kind == "embedding" else transcribe
        told, usage = await ask(self._ctx.rail, call)
        await self._report(usage)
        return self._traced(told, call.trace) if routed else told

    async def _report(self, usage: Usage) -> None:
        if not self._ctx.counts_models:
            await self._ctx.report_usage(usage)

    def _told(self, reply: Reply, trace: Trace, routed: bool) -> dict[str, Any]:
        return self._traced(reply.to_wire(), trace) if routed else reply.to_wire()

    def _traced(self, told: dict[str, Any], trace: Trace) -> dict[str, Any]:
        return {**told, "trace": self._ctx.rail.run.redact.within(trace.to_wire())}


def _explained(call: Call | OtherCall, operation: str, routed: bool) -> dict[str, Any]:
    told = explained(call, operation)
    if not routed:
        return told
    return {"explanation": told, "decision": decision(call), "limits": dict(call.targets[0].limits)}


class _Stream:
    """A reply that comes piece by piece."""

    def __init__(
        self,
        stream: Streamed,
        told: Callable[[Reply], dict[str, Any]],
        report: Callable[[Usage], Awaitable[None]],
    ) -> None:
        self._stream = stream
        self._told = told
        self._report = report
        self._events = self._all()
        self._result: dict[str, Any] | None = None

    async def next(self) -> dict[str, Any] | None:
        return await anext(self._events, None)

    def result(self) -> dict[str, Any]:
        if self._result is None:
            raise GraphRunError("the result is there when next() has given null", kind="validation")
        return self._result

    async def close(self) -> None:
        await self._stream.close()
        await self._events.aclose()

    async def _all(self) -> AsyncGenerator[dict[str, Any]]:
        async for piece in self._stream:
            yield {"delta": piece}
        try:
            reply = self._stream.reply()
        except Exception as error:
            usage: Usage | None = getattr(error, "usage", None)
            if usage is not None:
                await self._report(usage)
            raise
        await self._report(reply.usage)
        for part in reply.message.parts:
            if not isinstance(part, TextPart | ReasoningPart):
                yield {"delta": part_to_wire(part)}
        yield {"finish_reason": reply.finish_reason, "usage": usage_to_wire(reply.usage)}
        self._result = self._told(reply)
