"""Endpoints and servers that repeat every secret they were given, wherever they can say anything."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web

from tests.builtins.websites import site
from tests.faults.server import Answer as Bytes
from tests.faults.server import faulty_endpoint, good
from tests.loop.support import WAYS, Way, everything, use
from tests.observability.spans import Traced, attributes, tracing
from toolnexus import (
    Answer,
    AnthropicModel,
    Client,
    ConfigError,
    FunctionModel,
    Message,
    ModelError,
    OpenAIModel,
    RunResult,
    SqliteStore,
    TextPart,
    ToolCallPart,
    ToolContext,
    ToolResult,
    assistant,
    pending,
    tool,
)
from toolnexus.core.events import Event
from toolnexus.core.messages import OpaquePart, ReasoningPart
from toolnexus.runtime.redact import MASK, Masking, Redactor
from toolnexus.telemetry.spans import CAPTURE
from toolnexus.testing import RecordingModel, Turn

pytestmark = pytest.mark.anyio

KEY = "sk-0123456789abcdef"
HEADER = 'head-"x\\y-31415'
QUERY = "query-key-271828"
PATIENCE = 30


def spelt(secret: str) -> list[str]:
    return [secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]


def silent(text: str, *secrets: str) -> None:
    found = [spelling for secret in secrets for spelling in spelt(secret) if spelling in text]
    assert not found, (found, text[max(0, text.index(found[0]) - 200) :][:400])


class Heard:
    """All that anybody can read of some runs."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.parts: list[str] = []
        self._caplog = caplog

    def add(self, value: object) -> None:
        self.parts.append(value if isinstance(value, str) else json.dumps(value, default=repr))

    def result(self, result: RunResult) -> None:
        for run in everything(result):
            self.parts += [repr(run), str(run.error), repr(run.error)]
            self.add(run.snapshot)

    def events(self, events: list[Event]) -> None:
        self.add([event.to_json() for event in events])
        self.add(repr(events))
        for kind in ("text", "reasoning"):  # a secret in pieces is one for whoever reads on
            self.add("".join([getattr(e, "text", "") for e in events if e.type == kind]))

    def error(self, error: BaseException) -> None:
        self.add("".join(traceback.format_exception(error)))

    def everything(self, traced: Traced, client: Client) -> str:
        lines = [f"{r.getMessage()} {vars(r)} {r.exc_text}" for r in self._caplog.records]
        values = [str(v) for s in traced.all for v in attributes(s).values()]
        said = [str(dict(e.attributes or {})) for s in traced.all for e in s.events]
        whole = [*self.parts, self._caplog.text, str(traced), *values, *said, *lines, client.metrics()]
        return "\n".join(whole)


@contextmanager
def watched(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Generator[tuple[Heard, Traced]]:
    monkeypatch.setenv(CAPTURE, "true")
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "toolnexus")
    with tracing() as traced:
        yield Heard(caplog), traced


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_a_reply_that_repeats_them(
    way: Way, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[OBS-50] In the text, letter by letter in a stream, in reasoning, in arguments, ids and fields of its
    own: not in transcript, event, span, log, metric, snapshot, store or record, nor in the next request."""
    said = f"I was sent {KEY} and {HEADER} and {QUERY}."
    more: dict[str, Any] = {"thinking": (said, "sig")} if way.style == "anthropic" else {"reasoning": said}
    calls = [use("look", {"x": said, HEADER: [KEY]}, KEY), use("wait", {"x": KEY}, "w")]

    @tool
    async def look(x: str, ctx: ToolContext) -> ToolResult:
        """Look."""
        ctx.emit("looking", deep={"x": [KEY]})
        return ToolResult(output=f"saw {x} {KEY}", metadata={"deep": [{"of": HEADER, QUERY: 1}]})

    @tool
    async def wait(x: str) -> ToolResult:
        """Wait."""
        return pending(kind="input", prompt=f"{KEY}?", url=f"http://x/?q={QUERY}", data={"a": [HEADER]})

    turns = [Turn(text=said, calls=calls, chunk=1, **more), Turn(text="end")]
    with watched(monkeypatch, caplog) as (heard, traced):
        async with asyncio.timeout(PATIENCE), faulty_endpoint() as endpoint:
            endpoint.answers["m"] = [good(turn) for turn in turns]
            cls = AnthropicModel if way.style == "anthropic" else OpenAIModel
            url, headers = f"{endpoint.url}?api_key={QUERY}", {"x-team": HEADER}
            model = cls("m", base_url=url, api_key=KEY, headers=headers)
            record, store = tmp_path / "record.jsonl", SqliteStore(tmp_path / "c.db")
            model = RecordingModel(model, record)
            async with Client(model=model, builtins=False, tools=[look, wait], store=store) as client:
                events: list[Event] = []
                first = await way.ask(client, "go", events, conversation="c")
                heard.result(first)
                heard.events(events)
                heard.add(await store.load_state("c") or {})
                last = await client.resume("c", [Answer(id=first.pending[0].id, ok=False)])
                heard.result(last)
                heard.add(record.read_text())
                heard.add([asked.body for asked in endpoint.asked])
                text = heard.everything(traced, client)
        assert any(KEY in asked.head for asked in endpoint.asked)
    raw = (tmp_path / "c.db").read_bytes().decode("utf-8", "replace")
    assert first.text.startswith("I was sent [redacted] and ") and last.text == "end"
    silent(text + raw, KEY, HEADER, QUERY)


OK = b"HTTP/1.1 200 OK\r\n"
ODD = b"""{"choices": [{"message": {"tool_calls": [{"function": "%b"}]}}],
"content": [{"type": "tool_use", "input": "%b"}]}"""
BROKEN = {
    "a header that is none": OK + b"no header %b\r\n\r\n",
    "a status line that is none": b"HTTP/1.1 %b\r\n\r\n",
    "no HTTP": b"%b\r\n\r\n",
    "a length that is none": OK + b"Content-Length: %b\r\n\r\n",
    "a chunk that is none": OK + b"Transfer-Encoding: chunked\r\n\r\n%b\r\n",
    "a coding that is none": OK + b"Content-Encoding: gzip\r\nContent-Length: 40\r\n\r\n%b" + b" " * 40,
    "a reply of another shape": OK + b"Connection: close\r\n\r\n" + ODD,
}


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("way", [WAYS[0], WAYS[3]], ids=str)
async def test_an_answer_that_is_no_answer(
    what: str, way: Way, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[OBS-51] What a parser stumbles over is quoted in its error: neither our text nor the traceback behind
    it shows a secret, nor the address with its key."""
    data = BROKEN[what]
    with watched(monkeypatch, caplog) as (heard, traced):
        async with asyncio.timeout(PATIENCE), faulty_endpoint() as endpoint:
            spoken = f"{KEY} {QUERY} {HEADER}".encode().replace(b'"', b'\\"')
            endpoint.answers["m"] = [lambda asked: Bytes(data.replace(b"%b", spoken), "close")]
            cls = AnthropicModel if way.style == "anthropic" else OpenAIModel
            url = f"{endpoint.url}?api_key={QUERY}"
            model = cls("m", base_url=url, api_key=KEY, headers={"x-team": HEADER}, retries=0)
            async with Client(model=model, builtins=False) as client:
                events: list[Event] = []
                try:
                    heard.result(await way.ask(client, "go", events))
                except ModelError as error:
                    heard.error(error)
                    heard.result(error.result)
                heard.events(events)
                text = heard.everything(traced, client)
    silent(text, KEY, HEADER, QUERY)


@pytest.mark.parametrize(
    "url",
    [
        f"ftp://me:{KEY}@host/v1",
        f"https://me:{KEY}@host/v1",
        f"https://host:{KEY}/v1",
        f"http://api.openai.com/v1?api_key={KEY}",
        f"nothing?api_key={KEY}",
        f"https://[{KEY}/v1",
    ],
)
def test_an_address_that_is_refused_is_not_shown(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """[OBS-52] Neither its password nor its query, nor what stands where the port should."""
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    with pytest.raises(ConfigError) as caught:
        OpenAIModel("m", base_url=url)
    silent("".join(traceback.format_exception(caught.value)), KEY)


PASSWORD = "p@ss/wörd-271"
LOGIN = base64.b64encode(f"me:{PASSWORD}".encode()).decode()


async def an_echo(request: web.Request) -> web.StreamResponse:
    """An MCP server that puts its headers and its address into whatever it says."""
    message: dict[str, Any] = await request.json() if request.method == "POST" else {}
    params: dict[str, Any] = message.get("params") or {}
    heard = f"{dict(request.headers)} {request.path_qs}"
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": heard, "version": heard},
            "instructions": heard,
        },
        "tools/list": {
            "tools": [
                {
                    "name": name,
                    "description": heard,
                    "inputSchema": {"type": "object", "properties": {"q": {"description": heard}}},
                }
                for name in ("say", "fail", "break", "refuse")
            ]
        },
    }
    match str(message.get("method")), str(params.get("name")):
        case method, _ if method in results:
            result = results[method]
        case "tools/call", "say":
            blob = {"uri": f"memo://{heard}", "text": heard}
            content = [{"type": "text", "text": heard}, {"type": "resource", "resource": blob}]
            result = {"content": content, "structuredContent": {heard: [heard]}, "_meta": {"x": heard}}
        case "tools/call", "fail":
            error = {"code": -32050, "message": heard, "data": heard}
            return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error})
        case "tools/call", "break":
            at = heard.index(KEY if KEY in heard else LOGIN)
            return web.Response(status=500, text="x" * 290 + heard[at:])  # an excerpt would cut it in two
        case "tools/call", _:
            return web.Response(status=401, text=heard, headers={"www-authenticate": "Bearer"})
        case _:
            return web.Response(status=202 if request.method == "POST" else 405)
    return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})


async def test_a_server_that_repeats_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[OBS-53] In its instructions, declarations, results, structured ones and errors, as they are, encoded
    for a login, and cut where an excerpt ends: neither a model nor anybody else reads them."""
    monkeypatch.setenv("ECHO_TOKEN", KEY)
    with watched(monkeypatch, caplog) as (heard, traced):
        async with asyncio.timeout(PATIENCE), site(an_echo) as address, faulty_endpoint() as endpoint:
            login = f"me:{quote(PASSWORD, safe='')}@"
            servers: dict[str, Any] = {
                "far": {"url": f"{address}/mcp?api_key={QUERY}", "headers": {"X-Auth": "${ECHO_TOKEN}"}},
                "other": {"url": f"{address.replace('//', '//' + login)}/mcp"},
            }
            names = [f"{server}_{name}" for server in servers for name in ("say", "fail", "refuse", "break")]
            endpoint.answers["m"] = [good(Turn(calls=[use(name) for name in names]))]
            model = OpenAIModel("m", base_url=endpoint.url, api_key="k" * 20)
            record = tmp_path / "record.jsonl"
            mcp = {"mcpServers": servers}
            async with Client(model=RecordingModel(model, record), builtins=False, mcp=mcp) as client:
                events: list[Event] = []
                result = await WAYS[1].ask(client, "go", events)
                heard.result(result)
                heard.events(events)
                heard.add(client.mcp_status())
                heard.add([(t.name, t.description, t.input_schema) for t in client.toolkit])
                heard.add(record.read_text())
                heard.add([asked.body for asked in endpoint.asked])
                text = heard.everything(traced, client)
    outputs = [part.output for part in result.messages[2].tool_results]
    assert sum(MASK in output for output in outputs) >= 7, outputs
    silent(text, KEY, KEY[:12], QUERY, PASSWORD, quote(PASSWORD, safe=""), LOGIN)


def test_a_secret_in_pieces_is_masked_and_nothing_else_is_lost() -> None:
    """[OBS-54] However a text is cut; what only looked like a beginning comes with the next piece."""
    redact = Redactor(["abcabd", "secret-1", 'q"uote-1'])
    for text in (
        "xabcabcabdx",
        "abcab",
        "a secret-2 secret-1.",
        'say q\\"uote-1 q"uote-1',
        "secret-secret-1",
        "",
    ):
        for size in range(1, 9):
            masking = Masking(redact)
            pieces = [masking.more(text[at : at + size]) for at in range(0, len(text), size)]
            assert "".join([*pieces, masking.rest()]) == redact(text)


class Keyed(FunctionModel):
    """A model in this process that has a key."""

    secrets = ("sk-echo-0123456789",)


async def test_a_key_in_any_part_of_a_reply_is_masked() -> None:
    """[OBS-10] In texts, signatures, blocks, calls and what stands beside them; parts without one stay
    the same objects, and so does a message."""
    (key,) = Keyed.secrets
    fine, clean = TextPart("nothing here", {"note": ["x"]}), assistant("end")
    parts = (
        TextPart(f"it is {key}", {"beside": [key, {"deep": key}]}),
        ReasoningPart(f"hm {key}", "m", {"signature": key}),
        OpaquePart("m", {"data": key, key: 1, "raw": b"kept"}),
        fine,
        ToolCallPart(f"id-{key}", f"look-{key}", json.dumps({"q": key}), {"sealed": key}),
    )
    told = Message("assistant", parts, "m", {"id": key})
    model = Keyed(lambda request: told if request.turn == 1 else clean)
    async with Client(model=model, builtins=False) as client:
        result = await client.ask("go")
    first, last = result.messages[1], result.messages[-1]
    assert key not in repr(result) and last is clean and first.parts[3] is fine
    assert first.extra == {"id": "[redacted]"}
    assert first.parts[0] == TextPart("it is [redacted]", {"beside": ["[redacted]", {"deep": "[redacted]"}]})
    assert first.parts[1] == ReasoningPart("hm [redacted]", "m", {"signature": "[redacted]"})
    assert first.parts[2] == OpaquePart("m", {"data": "[redacted]", "[redacted]": 1, "raw": b"kept"})
    assert first.tool_calls[0].id == "id-[redacted]" and first.tool_calls[0].name == "look-[redacted]"
    assert first.tool_calls[0].arguments == '{"q": "[redacted]"}'
    assert first.tool_calls[0].extra == {"sealed": "[redacted]"}
    assert "unknown tool 'look-[redacted]'" in result.messages[2].tool_results[0].output
