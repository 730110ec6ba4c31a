"""The wire over official client objects. Each test loads the SDK that it needs: collecting must be quick."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tests.models.support import ANTHROPIC, KEY, OPENAI, QUICK, Case, Sink, bench
from toolnexus.core.messages import user
from toolnexus.core.model import ModelRequest
from toolnexus.errors import ConfigError, ModelConnectionError, ModelError, ModelHTTPError
from toolnexus.models.anthropic import AnthropicModel
from toolnexus.models.openai import OpenAIModel
from toolnexus.models.sdk import SdkWire
from toolnexus.testing import ScriptedEndpoint, Turn

pytestmark = pytest.mark.anyio

ASK = ModelRequest(messages=(user("x"),))
CHUNK = {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
COMPLETION = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
MESSAGE = {"type": "message", "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"}


class Server:
    """Answers the requests of a client object without a network."""

    def __init__(self, reply: dict[str, Any], status: int = 200) -> None:
        self.reply = reply
        self.status = status
        self.requests: list[httpx2.Request] = []

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self.handle))

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if json.loads(request.content).get("stream"):
            line = f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n"
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=line)
        return httpx2.Response(self.status, json=self.reply)


async def test_an_azure_client_builds_its_own_address() -> None:
    """[WIRE-34] A cloud's client sees the body and makes its own URL of it, streamed or not."""
    import openai

    server = Server(COMPLETION)
    client = openai.AsyncAzureOpenAI(
        api_key=KEY,
        azure_endpoint="https://x.openai.azure.com",
        api_version="v9",
        http_client=server.client(),
    )
    model = OpenAIModel("my-deployment", wire=client)
    assert (await model.generate(ASK)).message.text == "hi"
    sink = Sink()
    assert (await model.generate(ModelRequest(messages=(user("x"),), sink=sink))).message.text == "hi"
    assert sink.said == "hi"
    for request in server.requests:
        assert request.url.path == "/openai/deployments/my-deployment/chat/completions"
        assert request.url.params["api-version"] == "v9"
    assert model.host == "x.openai.azure.com"
    assert KEY in model.secrets
    await client.close()


async def test_a_bedrock_client_builds_its_own_address() -> None:
    """[WIRE-34] The model and the stream flag move from the body into a Bedrock URL."""
    from anthropic.lib.bedrock import AsyncAnthropicBedrock

    server = Server(MESSAGE)
    client = AsyncAnthropicBedrock(api_key=KEY, aws_region="eu-north-1", http_client=server.client())
    model = AnthropicModel("anthropic.claude-x", wire=client)
    assert (await model.generate(ASK)).message.text == "hi"
    (request,) = server.requests
    assert request.url.path == "/model/anthropic.claude-x/invoke"
    assert "model" not in json.loads(request.content)
    await client.close()


@pytest.mark.parametrize("broken", [False, True])
async def test_a_stream_in_the_sdks_own_framing_is_read_by_the_sdk(broken: bool) -> None:
    """[WIRE-34] What is neither server-sent events nor JSON is left to the SDK's decoder."""
    import anthropic

    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    if broken:
        events[2:] = [{"type": "error", "error": {"type": "permission_error", "message": f"no {KEY}"}}]
    lines = "".join([f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events])

    def handle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "application/vnd.x"}, content=lines)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(handle))
    client = anthropic.AsyncAnthropic(api_key=KEY, http_client=http)
    model = AnthropicModel("m", wire=client)
    request = ModelRequest(messages=(user("x"),), sink=Sink())
    if broken:
        with pytest.raises(ModelHTTPError, match=r"no \[redacted\]") as caught:
            await model.generate(request)
        assert caught.value.status == 403
    else:
        response = await model.generate(request)
        assert (response.message.text, response.stop) == ("hi", "stop")
        assert response.usage is not None and response.usage.total_tokens == 5
    await client.close()


async def test_a_clients_own_retries_are_off() -> None:
    """[WIRE-34] The model counts the attempts, not the client below it."""
    import openai

    server = Server({"error": {"message": f"down {KEY}"}}, status=503)
    client = openai.AsyncOpenAI(api_key=KEY, http_client=server.client(), max_retries=7)
    model = OpenAIModel("m", wire=client, retries=QUICK)
    with pytest.raises(ModelHTTPError, match=r"down \[redacted\]"):
        await model.generate(ASK)
    assert len(server.requests) == 3
    await client.close()


async def test_a_client_is_never_closed_by_us() -> None:
    """[WIRE-34] A client object belongs to who made it; one that we made is closed and made again."""
    import openai

    async with ScriptedEndpoint([Turn(text="ok")] * 4) as endpoint:
        async with openai.AsyncOpenAI(api_key=KEY, base_url=endpoint.url) as client:
            given = OpenAIModel("m", wire=client)
            await given.generate(ASK)
            await given.aclose()
            assert not client.is_closed()
            await given.generate(ASK)
        own = OpenAIModel("m", base_url=endpoint.url, api_key=KEY, wire="sdk")
        await own.generate(ASK)
        await own.aclose()
        await own.generate(ASK)
        await own.aclose()
        assert len(endpoint.requests) == 4


def test_a_client_that_we_make_belongs_to_one_loop() -> None:
    """[WIRE-34] A client made by a function is made again under another event loop, and only then."""
    import openai

    server = Server(COMPLETION)
    made: list[openai.AsyncOpenAI] = []

    def make() -> openai.AsyncOpenAI:
        made.append(openai.AsyncOpenAI(api_key=KEY, http_client=server.client()))
        return made[-1]

    async def ask_twice() -> None:
        assert (await model.generate(ASK)).message.text == "hi"
        assert (await model.generate(ASK)).message.text == "hi"

    model = OpenAIModel("m", wire=SdkWire("openai", make))
    asyncio.run(ask_twice())
    assert len(made) == 1
    asyncio.run(ask_twice())
    assert len(made) == 2
    asyncio.run(model.aclose())
    assert [client.is_closed() for client in made] == [False, True]


async def test_what_a_login_raises_is_a_model_error() -> None:
    """[WIRE-34] A failing token provider fails the request in our terms, without the secret."""
    import openai

    async def token() -> str:
        raise RuntimeError("no token from the cloud")

    client = openai.AsyncAzureOpenAI(
        azure_ad_token_provider=token, azure_endpoint="https://x.openai.azure.com", api_version="v9"
    )
    model = OpenAIModel("m", wire=client, retries=QUICK)
    with pytest.raises(ModelError, match="no token from the cloud") as caught:
        await model.generate(ASK)
    assert not caught.value.retryable
    await client.close()


async def test_a_lost_connection_is_a_connection_error() -> None:
    """[WIRE-34] Errors of the client's transport are connection errors, before and inside a stream."""
    import openai

    class Broken(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield f"data: {json.dumps({'choices': [{'delta': {'content': 'a'}}]})}\n\n".encode()
            raise httpx2.ReadError("gone")

    def handle(request: httpx2.Request) -> httpx2.Response:
        if json.loads(request.content).get("stream"):
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Broken())
        raise httpx2.ConnectError("refused")

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(handle))
    client = openai.AsyncOpenAI(api_key=KEY, http_client=http)
    model = OpenAIModel("m", wire=client, retries=QUICK)
    with pytest.raises(ModelConnectionError, match="refused"):
        await model.generate(ASK)
    response = await model.generate(ModelRequest(messages=(user("x"),), sink=Sink()))
    assert (response.stop, response.message.text) == ("cut", "a")
    await client.close()


def test_other_objects_are_refused() -> None:
    """[WIRE-34] A client of the other SDK, a blocking one, or anything else is no wire."""
    import anthropic
    import openai

    wrong = [
        anthropic.AsyncAnthropic(api_key=KEY),
        openai.OpenAI(api_key=KEY),
        object(),
        "ssl",
    ]
    for wire in wrong:
        with pytest.raises(ConfigError, match="AsyncOpenAI"):
            OpenAIModel("m", wire=wire)


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("style", [OPENAI, ANTHROPIC])
async def test_what_an_endpoint_echoes_is_in_no_traceback_and_no_debug_log(
    style: str, streamed: bool, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """[WIRE-25] Key and header values that come back in an error or in a page are masked in the error and in
    what it was raised from; the SDK's own log does not show them either."""
    caplog.set_level(logging.DEBUG)
    header = "header-secret-31415926"
    page = Turn(status=status, body=f"<html>{KEY} {header}</html>", headers={"content-type": "text/html"})
    async with bench(Case(style, "sdk", streamed), [page] * 3, headers={"x-team": header}) as b:
        with pytest.raises(ModelError, match="<html>") as caught:
            await b.ask()
        assert b.endpoint.requests[0].headers["x-team"] == header
    shown = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert KEY not in shown and header not in shown
