"""The default wire: connections are shared, kept, closed, opened again."""

from __future__ import annotations

import asyncio
import base64
import gc
import threading
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import ClientSession

from tests.models.support import ANTHROPIC, KEY, OPENAI, Bench, Case, Sink, bench
from toolnexus.client import Client
from toolnexus.core.messages import user
from toolnexus.core.model import ModelRequest
from toolnexus.errors import ConfigError
from toolnexus.models.http import HttpPool, HttpWire
from toolnexus.models.openai import OpenAIModel
from toolnexus.testing import ScriptedEndpoint, Turn

pytestmark = pytest.mark.anyio

ASK = ModelRequest(messages=(user("x"),))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("style", [OPENAI, ANTHROPIC])
async def test_a_connection_is_used_again(style: str, streamed: bool) -> None:
    """[WIRE-31] Requests one after the other share one connection, streamed or not."""
    async with bench(Case(style, "http", streamed), [Turn(text="ok")] * 5) as b:
        for _ in range(5):
            await b.ask()
        assert b.endpoint.connections == 1


async def test_a_stream_that_ends_late_leaves_its_connection_usable() -> None:
    """[WIRE-31] Behind `[DONE]` the rest of the answer is read, so that the connection is kept."""
    event = b'data: {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    connections: list[int] = []
    answered = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answered
        connections.append(1)
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
                writer.write(b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(event), event))
                await writer.drain()
                await asyncio.sleep(0.05)  # the end of the body comes later than its last event
                writer.write(b"0\r\n\r\n")
                answered += 1
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with asyncio.timeout(20), server:
        model = OpenAIModel("m", base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        for _ in range(3):
            sink = Sink()
            await model.generate(ModelRequest(messages=(user("x"),), sink=sink))
            assert sink.said == "hi"
        await model.aclose()
    assert (answered, len(connections)) == (3, 1)


async def test_requests_at_once_do_not_wait_for_each_other() -> None:
    """[WIRE-31] As many connections are opened as requests run at once."""
    async with ScriptedEndpoint(lambda body: Turn(text="ok")) as endpoint:
        all_here = asyncio.Event()

        async def held(body: dict[str, object]) -> Turn:
            if endpoint.max_in_flight == 150:
                all_here.set()
            await all_here.wait()
            return Turn(text="ok")

        endpoint._reply = held
        model = Case(OPENAI).model(endpoint.url)
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            for _ in range(150):
                group.create_task(model.generate(ASK))
        await model.aclose()
        assert endpoint.max_in_flight == 150


async def test_a_pool_closes_with_its_last_user() -> None:
    """[WIRE-31] Wires share the session of a pool; the last one to close ends it."""
    async with ScriptedEndpoint([Turn(text="ok")] * 4) as endpoint:
        pool = HttpPool()
        one = OpenAIModel("one", wire=HttpWire(endpoint.url, pool=pool))
        two = OpenAIModel("two", wire=HttpWire(endpoint.url, pool=pool))
        await one.generate(ASK)
        await two.generate(ASK)
        session = pool.session()
        await one.aclose()
        await one.aclose()
        assert not session.closed
        await two.generate(ASK)
        assert endpoint.connections == 1
        await two.aclose()
        assert session.closed


async def test_a_closed_model_opens_again() -> None:
    """[WIRE-31] After `aclose` the next request opens connections again."""
    async with bench(Case(OPENAI), [Turn(text="ok")] * 2) as b:
        await b.ask()
        await b.model.aclose()
        assert (await b.ask()).message.text == "ok"
        assert b.endpoint.connections == 2


async def test_named_gives_another_model_at_the_same_endpoint() -> None:
    """[WIRE-31] `named` shares address, options and connections; only the name differs."""
    async with bench(Case(OPENAI), [Turn(text="ok")] * 2, params={"temperature": 1}) as b:
        await b.ask()
        other = b.model.named("other")
        await other.generate(ASK)
        assert (b.model.name, other.name) == ("m", "other")
        assert [body["model"] for body in b.bodies] == ["m", "other"]
        assert b.bodies[1]["temperature"] == 1
        assert b.endpoint.connections == 1


def test_a_model_outlives_the_loop_of_its_first_use() -> None:
    """[WIRE-31] A model used under `asyncio.run` twice opens its connections again."""

    async def ask_once() -> str:
        async with asyncio.timeout(20):
            return (await model.generate(ASK)).message.text

    async def close() -> None:
        await model.aclose()

    with ScriptedEndpoint([Turn(text="one"), Turn(text="two")]) as endpoint:
        model = OpenAIModel("m", base_url=endpoint.url)
        with warnings.catch_warnings():
            # The first loop ended over an open connection, which asyncio reports when it is freed.
            warnings.simplefilter("ignore", ResourceWarning)
            assert asyncio.run(ask_once()) == "one"
            assert asyncio.run(ask_once()) == "two"
            gc.collect()
            asyncio.run(close())
            gc.collect()


async def test_two_loops_at_once_do_not_disturb_each_other() -> None:
    """[WIRE-31] A model used from a second live loop has connections of its own there."""
    async with asyncio.timeout(20), ScriptedEndpoint([Turn(text="ok")] * 3) as endpoint:
        pool = HttpPool()
        model = OpenAIModel("m", wire=HttpWire(endpoint.url, pool=pool))
        await model.generate(ASK)

        async def ask() -> str:
            text = (await model.generate(ASK)).message.text
            await pool.session().close()
            return text

        assert await asyncio.to_thread(asyncio.run, ask()) == "ok"
        await model.generate(ASK)
        assert endpoint.connections == 2
        await model.aclose()


async def test_closing_reaches_the_sessions_of_other_loops() -> None:
    """[WIRE-31] Connections that live on another running loop are closed there."""
    with ScriptedEndpoint([Turn(text="ok")]) as endpoint:
        pool = HttpPool()
        model = OpenAIModel("m", wire=HttpWire(endpoint.url, pool=pool))
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        asyncio.run_coroutine_threadsafe(model.generate(ASK), loop).result(10)

        async def session() -> ClientSession:
            return pool.session()

        theirs = asyncio.run_coroutine_threadsafe(session(), loop).result(10)
        await model.aclose()

        async def gone() -> None:
            while not theirs.closed:
                await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(gone(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join)
        loop.close()


async def test_a_large_body_is_sent_whole() -> None:
    """[WIRE-31] A body of several megabytes arrives, without a warning."""
    async with bench(Case(OPENAI), [Turn(text="ok")]) as b:
        await b.ask(user("x" * 3_000_000))
        assert len(b.bodies[0]["messages"][0]["content"]) == 3_000_000


@asynccontextmanager
async def proxy() -> AsyncGenerator[tuple[int, list[bytes]]]:
    """A plain HTTP proxy that answers by itself and keeps the request heads."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        body = b'{"choices": [{"message": {"content": "by proxy"}, "finish_reason": "stop"}]}'
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], heads


async def test_a_proxy_from_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """[WIRE-32] Requests go through the proxy that the environment names, with its login."""
    async with asyncio.timeout(20), proxy() as (port, heads):
        monkeypatch.setenv("http_proxy", f"http://us%40er:pa-ss-word@127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "")
        model = OpenAIModel("m", base_url="http://models.example/v1", api_key=KEY)
        assert (await model.generate(ASK)).message.text == "by proxy"
        await model.aclose()
        assert heads[0].startswith(b"POST http://models.example/v1/chat/completions HTTP/1.1")
        login = base64.b64encode(b"us@er:pa-ss-word")
        assert b"Proxy-Authorization: Basic " + login in heads[0]


async def test_hosts_without_proxy_are_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """[WIRE-32] `no_proxy` is obeyed."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    async with bench(Case(OPENAI), [Turn(text="ok")]) as b:
        assert (await b.ask()).message.text == "ok"


async def test_a_proxy_of_another_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """[WIRE-32] A proxy that is not HTTP is a `ConfigError`, not a request around it."""
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    model = OpenAIModel("m", base_url="http://models.example/v1")
    for sink in (None, Sink()):
        with pytest.raises(ConfigError, match="socks5"):
            await model.generate(ModelRequest(messages=(user("x"),), sink=sink))
    await model.aclose()


async def test_an_own_wire_carries_address_and_key() -> None:
    """[WIRE-33] With `wire=` the address, key and headers are the wire's business."""
    async with ScriptedEndpoint([Turn(text="ok")]) as endpoint:
        model = OpenAIModel("m", wire=HttpWire(endpoint.url))
        await Bench(endpoint, model, streamed=False).ask()
        await model.aclose()
        wire = HttpWire(endpoint.url)
        for make in (
            lambda: OpenAIModel("m", wire=wire, base_url="http://127.0.0.1:1"),
            lambda: OpenAIModel("m", wire=wire, api_key="x"),
            lambda: OpenAIModel("m", wire=wire, headers={"a": "b"}),
        ):
            with pytest.raises(ConfigError, match="set it on the object"):
                make()


async def test_closing_one_client_leaves_the_requests_of_another_alone() -> None:
    """[WIRE-31] Two clients share one model: the request in flight ends, then the connections close."""
    answered = asyncio.Event()

    async def slow(body: dict[str, Any]) -> Turn:
        async with asyncio.timeout(5):
            await answered.wait()
        return Turn(text="intact")

    async with ScriptedEndpoint(slow) as endpoint:
        model = OpenAIModel("m", base_url=endpoint.url, retries=0)
        first, second = Client(model=model, builtins=False), Client(model=model, builtins=False)
        async with first:
            asking = asyncio.create_task(first.ask("go"))
            await endpoint.until(lambda: len(endpoint.requests) == 1)
            async with second:
                pass
            await model.aclose()
            answered.set()
            assert (await asking).text == "intact"
        assert len(endpoint.requests) == 1
