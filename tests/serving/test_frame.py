"""The frame around what is served: who may come in, with how much, how many at once, and how it ends."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx2
import pytest

from tests.serving.kit import Kit, client
from toolnexus import Client, ConfigError, serve, serve_app
from toolnexus.testing import ScriptedModel

pytestmark = pytest.mark.anyio

TOKEN = {"authorization": "Bearer right-token"}
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
MODERN = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, "_meta": META}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def headers(name: str) -> dict[str, str]:
    return {**TOKEN, **MODERN, "mcp-method": "tools/call", "mcp-name": name}


class Served:
    def __init__(self, url: str, kit: Kit) -> None:
        self.url = f"{url}/mcp"
        self.kit = kit
        self.host, _, port = url.removeprefix("http://").partition(":")
        self.port = int(port)

    async def post(self, body: Any, given: Mapping[str, str]) -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with asyncio.timeout(20), httpx2.AsyncClient() as http:
            return await http.post(
                self.url, content=content, headers={"content-type": "application/json", **given}
            )


@pytest.fixture(scope="module")
async def served() -> AsyncGenerator[Served]:
    kit = Kit()
    options: Any = {"mcp": {"token": "right-token"}, "max_concurrent": 2, "max_body": 10_000, "deadline": 1.0}
    async with client(kit) as owner, serve(owner, **options) as server:
        yield Served(server.url, kit)


async def test_a_token_is_needed_where_one_is_set(served: Served) -> None:
    """[SRV-01] None, a wrong one and another scheme: 401 with a challenge; Bearer in any case."""
    for given in (
        "",
        "Bearer",
        "Bearer wrong-token",
        "Basic right-token",
        "right-token",
        "Bearer right-token2",
    ):
        refused = await served.post(calling("add", a=1, b=2), {**headers("add"), "authorization": given})
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert "right-token" not in refused.text
    for given in ("Bearer right-token", "bearer right-token"):
        taken = await served.post(calling("add", a=1, b=2), {**headers("add"), "authorization": given})
        assert taken.status_code == 200 and taken.json()["result"]["content"][0]["text"] == "3"


async def test_a_page_of_a_browser_gets_nothing(served: Served) -> None:
    """[SRV-02] A name that resolves here is no name of ours, and a page of another origin may not call."""
    body = calling("add", a=1, b=2)
    for host, origin, status in (
        ("evil.example", None, 421),
        (f"evil.example:{served.port}", None, 421),
        (f"localhost:{served.port}", "https://evil.example", 403),
        (f"localhost:{served.port}", "null", 403),
        (f"localhost:{served.port}", f"http://localhost:{served.port}", 200),
        ("[::1]", None, 200),
    ):
        given = {**headers("add"), "host": host, **({"origin": origin} if origin else {})}
        assert (await served.post(body, given)).status_code == status, (host, origin)


async def test_a_body_has_a_bound(served: Served) -> None:
    """[SRV-03] 413, told from its length or counted as it comes."""
    big = calling("add", a=1, b=2, c="x" * 20_000)
    assert (await served.post(big, headers("add"))).status_code == 413

    async def chunks() -> AsyncGenerator[bytes]:
        for _ in range(20):
            yield b"x" * 1000

    async with asyncio.timeout(20), httpx2.AsyncClient() as http:
        response = await http.post(served.url, content=chunks(), headers=headers("add"))
    assert response.status_code == 413


async def test_a_request_must_arrive_in_time(served: Served) -> None:
    """[SRV-04] 408 for a body that does not come, and the connection is closed."""
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        head = f"POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: {TOKEN['authorization']}\r\n"
        writer.write(f"{head}content-length: 100\r\n\r\n{{".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 408 ") and b"took too long" in answer


SURROGATE, INFINITE = b'{"jsonrpc": "2.0", "id": "\\ud800"}', b'{"jsonrpc": "2.0", "id": 1e999}'
METHODS = [b'{"jsonrpc": "2.0", "id": 1, "method": %b}' % method for method in (b"[]", b"{}", b"null", b"5")]


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"nul", b"\xff\xfe", b"[" * 9000, b'{"jsonrpc": "2.0"}'),
        *(SURROGATE, SURROGATE.decode().encode("utf-16"), b'{"jsonrpc": "2.0", "id": "\xed\xa0\x80"}'),
        *(INFINITE, b'{"jsonrpc": "2.0", "id": NaN}', *METHODS),
    ],
)
async def test_garbage_is_refused_and_harms_nobody(served: Served, body: bytes) -> None:
    """[SRV-05] A 4xx without a trace of what read it."""
    for given in ({**TOKEN, **MODERN}, {**TOKEN, "accept": MODERN["accept"]}):
        refused = await served.post(body, given)
        assert 400 <= refused.status_code < 500
        assert "Traceback" not in refused.text and "/toolnexus" not in refused.text


async def test_more_than_fit_are_told_to_come_again(served: Served) -> None:
    """[SRV-06] 503 with Retry-After for a call beyond the most; the rest goes on, and so do later calls."""
    served.kit.again()
    waiting = [asyncio.create_task(served.post(calling("hang"), headers("hang"))) for _ in range(2)]
    async with asyncio.timeout(20):
        await served.kit.started.wait()
    while (full := await served.post(calling("add", a=1, b=2), headers("add"))).status_code == 200:
        await asyncio.sleep(0)  # the second one is not there yet
    assert full.status_code == 503 and full.headers["retry-after"] == "1"
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": META}}
    assert (await served.post(listing, {**TOKEN, **MODERN, "mcp-method": "tools/list"})).status_code == 200
    served.kit.release.set()
    assert [task.json()["result"]["content"][0]["text"] for task in await asyncio.gather(*waiting)] == [
        "released",
        "released",
    ]
    assert (await served.post(calling("add", a=1, b=2), headers("add"))).status_code == 200


async def test_the_end_stops_what_runs() -> None:
    """[SRV-07] A call in flight is cancelled, whoever waits gets an answer, and nobody listens any more."""
    kit = Kit()
    async with asyncio.timeout(20), client(kit) as owner:
        async with serve(owner, mcp=True) as server:
            served = Served(server.url, kit)
            waiting = asyncio.create_task(served.post(calling("hang"), headers("hang")))
            await kit.started.wait()
        assert kit.cancelled.is_set()
        response = await waiting
        assert response.status_code in (200, 503) and "released" not in response.text
        with pytest.raises(httpx2.ConnectError):
            await served.post(calling("add"), headers("add"))


async def test_a_stream_that_nobody_ends_does_not_hold_up_the_end() -> None:
    """[SRV-08] An open subscription is ended with the server."""
    kit = Kit()
    async with asyncio.timeout(20), client(kit) as owner, httpx2.AsyncClient(timeout=20) as http:
        async with serve(owner, mcp=True) as server:
            params = {"notifications": {"toolsListChanged": True}, "_meta": META}
            body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
            request = http.build_request(
                "POST",
                f"{server.url}/mcp",
                json=body,
                headers={**MODERN, "mcp-method": "subscriptions/listen"},
            )
            response = await http.send(request, stream=True)
            assert response.status_code == 200
        await response.aclose()


async def test_other_machines_need_a_token() -> None:
    """[SRV-09] Without one nothing listens beyond this machine, unless the host says so."""
    async with client(Kit()) as owner:
        with pytest.raises(ConfigError, match=r"host='0.0.0.0' is reached from other machines"):
            async with serve(owner, host="0.0.0.0", mcp=True):
                pass
        async with serve(owner, host="0.0.0.0", mcp=True, allow_anonymous=True) as server:
            url = server.url.replace("0.0.0.0", "127.0.0.1")
            assert (
                await Served(url, Kit()).post(calling("add", a=1, b=1), headers("add"))
            ).status_code == 200
        async with serve(owner, host="0.0.0.0", mcp={"token": "right-token"}) as server:
            served = Served(server.url.replace("0.0.0.0", "127.0.0.1"), Kit())
            given = {**headers("add"), "host": "agents.example"}
            assert (await served.post(calling("add", a=1, b=1), given)).status_code == 200


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "nothing to serve"),
        ({"mcp": {"tokn": "x"}}, r"mcp: unknown key 'tokn'; did you mean 'token'\?"),
        ({"mcp": {"token": ""}}, "mcp.token: a token has printable ASCII"),
        ({"mcp": {"token": 5}}, "mcp.token: a token is a text, not int"),
        ({"mcp": {"agents": "helper"}}, "mcp.agents"),
        ({"mcp": {"tools": 5}}, "mcp.tools"),
        ({"mcp": 5}, "mcp=5"),
        ({"a2a": {"name": "\ud800"}}, r"a2a.name='\\ud800' \(str\): it holds half of a surrogate pair"),
        ({"a2a": {"description": "\ud800"}}, "a2a.description=.* half of a surrogate pair"),
        ({"a2a": {"version": "\ud800"}}, "a2a.version=.* half of a surrogate pair"),
        ({"a2a": {"retention_days": 0}}, "a2a.retention_days=0 must be a number of days above 0"),
        ({"a2a": {"retention_days": "30"}}, "a2a.retention_days='30'"),
        ({"mcp": True, "max_concurrent": 0}, "max_concurrent=0 must be 1 or more"),
        ({"mcp": True, "deadline": 0}, "deadline=0 must be a number of seconds above 0"),
        ({"mcp": True, "max_body": "1"}, "max_body='1'"),
        ({"mcp": True, "allowed_hosts": ["http://x/"]}, "allowed_hosts: 'http://x/'"),
        ({"mcp": True, "port": 99999}, "port=99999 must be 65535 or less"),
        ({"mcp": True, "host": "203.0.113.1", "allow_anonymous": True}, "cannot listen on '203.0.113.1'"),
        (
            {"mcp": True, "host": "no.such.host.invalid", "allow_anonymous": True},
            "no address of this machine",
        ),
    ],
)
async def test_wrong_options_are_told_where_they_are(options: dict[str, Any], why: str) -> None:
    """[SRV-10] Before anything listens; a token is in no error."""
    async with Client(model=ScriptedModel([])) as owner:
        with pytest.raises(ConfigError, match=why):
            async with serve(owner, **options):
                pass


async def test_a_port_that_is_taken_is_told() -> None:
    """[SRV-11] With its number."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with Client(model=ScriptedModel([])) as owner:
            with pytest.raises(ConfigError, match=f"port {port}: Address already in use"):
                async with serve(owner, mcp=True, port=port):
                    pass


async def test_it_is_an_application_for_other_servers() -> None:
    """[SRV-12] Below a path of somebody else's application, whose lifespan runs it."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    kit = Kit()
    async with client(kit) as owner:
        inner = serve_app(owner, mcp={"token": "right-token"}, allowed_hosts=["agents.example"])
        outer = Starlette(routes=[Mount("/agents", app=inner)], lifespan=lambda _: inner.running())
        async with asyncio.timeout(20), outer.router.lifespan_context(outer):
            transport = httpx2.ASGITransport(app=outer)
            async with httpx2.AsyncClient(transport=transport, base_url="http://agents.example") as http:
                body = calling("add", a=1, b=2)
                response = await http.post("/agents/mcp", json=body, headers=headers("add"))
                assert response.json()["result"]["content"][0]["text"] == "3"
                refused = await http.post("/agents/mcp", json={}, headers=MODERN)
                assert refused.status_code == 401


def test_what_is_missing_is_told_by_name() -> None:
    """[SRV-13] Without the extra it is an error that says what to install; nothing is loaded before."""
    program = (
        "import sys, toolnexus\n"
        "from toolnexus.testing import ScriptedModel\n"
        "toolnexus.serve, toolnexus.serve_app\n"
        "print([m for m in ('starlette', 'uvicorn', 'mcp', 'a2a') if m in sys.modules])\n"
        "sys.modules['starlette.applications'] = None\n"
        "client = toolnexus.Client(model=ScriptedModel([]))\n"
        "try: toolnexus.serve_app(client, mcp=True)\n"
        "except toolnexus.ConfigError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded, error = done.stdout.splitlines()
    assert loaded == "[]"
    assert error.endswith("install the extra 'serve' of toolnexus: pip install '.[serve]' in its clone")
