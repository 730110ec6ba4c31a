"""The builtin `webfetch`, against real servers on this machine."""

from __future__ import annotations

import asyncio
import base64
import threading
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.builtins.helpers import call, lively_loop
from tests.builtins.websites import always, endless, fetched, raw_site, site, streaming, webfetch
from toolnexus import Client, FunctionModel, Message, ModelRequest, assistant, testing
from toolnexus.core.messages import MediaPart
from toolnexus.errors import ToolError
from toolnexus.tools.builtin.fetch import fetch
from toolnexus.tools.builtin.loader import definition

pytestmark = pytest.mark.anyio

LIMITS = definition("webfetch").limits
MOST = LIMITS["maxBodyBytes"]
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


async def test_a_text_comes_as_it_is() -> None:
    """[BT-160] The body is the output; the metadata hold status, final address and type."""
    body = "{\r\n <b>ä</b>\n"
    async with site(always(body, "application/json; charset=utf-8")) as url:
        for shape in ("text", "markdown", "html"):
            result = await webfetch(f" {url}/a b?q=ö#part\n", format=shape)
            assert (result.output, result.is_error, result.parts) == (body, False, ())
            assert result.metadata == {
                "status": 200,
                "url": f"{url}/a%20b?q=%C3%B6#part",
                "contentType": "application/json",
            }


async def test_an_empty_body_is_a_sentence() -> None:
    """[BT-160] Nothing is said to be nothing, also where the server says that it is packed."""
    async with site(always(b"", status=204, Content_Encoding="gzip")) as url:
        result = await webfetch(url)
    assert (result.output, result.is_error, result.metadata["status"]) == ("[the page is empty]", False, 204)


HTML = "<!DOCTYPE html><title>T</title><p>a <a href=x>l</a>"


@pytest.mark.parametrize("content_type", ["text/html", "Application/XHTML+xml;charset=utf-8", None])
async def test_html_comes_in_the_format_asked_for(content_type: str | None) -> None:
    """[BT-161] As Markdown unless text or HTML is asked for; without a declared type the beginning tells."""
    declared = f"Content-Type: {content_type}\r\n" if content_type else ""
    head = f"HTTP/1.1 200 OK\r\n{declared}Content-Length: {len(HTML)}\r\n\r\n"
    async with raw_site((head + HTML).encode()) as url:
        for shape, expected in (
            ({}, f"# T\n\na [l]({url}/d/x)"),
            ({"format": "markdown"}, f"# T\n\na [l]({url}/d/x)"),
            ({"format": "text"}, "T\n\na l"),
            ({"format": "html"}, HTML),
        ):
            assert (await webfetch(f"{url}/d/", **shape)).output == expected
    async with site(always(HTML, "text/plain")) as url:
        assert (await webfetch(url)).output == HTML


@pytest.mark.parametrize(
    ("status", "body", "content_type", "expected"),
    [
        (404, "gone\n", "text/plain", "HTTP 404\ngone"),
        (500, "<h1>No</h1>", "text/html", "HTTP 500\n# No"),
        (503, "", "text/plain", "HTTP 503"),
        (403, PNG, "image/png", "HTTP 403"),
        (304, "", "text/plain", "HTTP 304"),
        (302, "nowhere", "text/plain", "HTTP 302\nnowhere"),
    ],
)
async def test_a_bad_status_is_an_error_with_what_the_server_said(
    status: int, body: bytes | str, content_type: str, expected: str
) -> None:
    """[BT-162] `HTTP <status>` and the body as it would have been; a redirect to nowhere is one of them."""
    async with site(always(body, content_type, status)) as url:
        result = await webfetch(url)
    assert (result.output, result.is_error, result.parts) == (expected, True, ())
    assert result.metadata["status"] == status


async def test_what_the_server_says_of_an_error_is_bounded() -> None:
    """[BT-162] Of a long error page the beginning is shown."""
    async with site(always("x" * 50_000, status=500)) as url:
        result = await webfetch(url)
    shown = "x" * LIMITS["maxErrorCharacters"]
    assert result.output == f"HTTP 500\n{shown}\n[the rest of the answer is left out]"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///etc/passwd", "must begin with http:// or https://, not with 'file'"),
        ("data:text/plain,x", "not with 'data'"),
        ("ftp://example.com/", "not with 'ftp'"),
        ("javascript:1", "not with 'javascript'"),
        ("ws://example.com/", "not with 'ws'"),
        ("example.com/x", "not with ''"),
        ("//example.com/x", "not with ''"),
        ("http:///x", "names no host"),
        ("http:x", "names no host"),
        ("http://[::1", "cannot be understood"),
        ("http://x\\@y/", "cannot be understood"),
        ("http://x:99999/", "cannot be understood"),
        ("http://me:secret-7@example.com/", "with a user name or password"),
        ("http://secret-7@example.com/", "with a user name or password"),
        ("http://:@example.com/", "with a user name or password"),
    ],
)
async def test_what_is_no_address_of_the_web_is_refused(url: str, reason: str) -> None:
    """[BT-163] Only http and https, with a host and without a password, of which the error says nothing."""
    with pytest.raises(ToolError, match=reason) as caught:
        await webfetch(url)
    assert "secret" not in str(caught.value)


async def test_local_hosts_are_closed_unless_the_program_lists_them() -> None:
    """[BT-168] Without `webfetch_allow` this machine is out of reach, through a client too."""
    hits: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        hits.append(request.path)
        return web.Response(text="inside")

    async def asked(url: str, builtins: Any) -> str:
        def model(request: ModelRequest) -> Message | str:
            return assistant("", testing.call("webfetch", url=url)) if request.turn == 1 else "end"

        async with Client(model=FunctionModel(model), builtins=builtins) as client:
            result = await client.ask("go")
        return result.messages[2].tool_results[0].output

    async with site(handler) as url:
        for address in (url, url.replace("127.0.0.1", "localhost")):
            assert "only public addresses are fetched" in await asked(address, ["webfetch"])
        with pytest.raises(ToolError, match="only public addresses"):
            await call("webfetch", Path.cwd(), url=url)
        assert hits == []
        allowed = {"tools": ["webfetch"], "webfetch_allow": ["127.0.0.1"]}
        assert await asked(f"{url}/x", allowed) == "inside"
        assert hits == ["/x"]


@pytest.mark.parametrize(
    "location",
    [
        *("http://127.0.0.1:{port}/in", "//127.0.0.1:{port}/in", "http://inner.test:{port}/in"),
        *("http://[::ffff:127.0.0.1]:{port}/in", "http://2130706433:{port}/in", "http://0x7f.1:{port}/in"),
        *(
            "http://169.254.169.254/latest",
            "http://10.0.0.1/",
            "http://inner.test./in",
            "http://[::1]:{port}/",
        ),
        *("file:///etc/passwd", "http://u:secret-7@public.test:{port}/in", "http://[::1", "ftp:x"),
    ],
)
async def test_every_hop_is_checked(location: str) -> None:
    """[BT-169] A redirect into this machine or its network is refused, and nobody there is asked."""
    hits: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        hits.append(request.path)
        if request.path == "/in":
            return web.Response(text="inside")
        port = request.transport.get_extra_info("sockname")[1] if request.transport else 0
        return web.Response(status=302, headers={"Location": location.format(port=port)})

    async with site(handler) as url:
        start = f"{url.replace('127.0.0.1', 'public.test')}/out"
        with pytest.raises(ToolError, match=r"only public addresses|is no usual way|redirects to") as caught:
            await fetched(start, public_test="127.0.0.1", inner_test="127.0.0.1")
    assert hits == ["/out"]
    assert "secret" not in str(caught.value)


async def test_the_address_that_was_checked_is_the_one_connected_to() -> None:
    """[BT-170] A name is looked up once for each hop; what it would answer a moment later is not asked."""
    asked: list[str] = []
    hosts: list[str] = []

    def lookup(host: str) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) <= 2 else ["169.254.169.254"]

    async def handler(request: web.Request) -> web.Response:
        hosts.append(request.host)
        if request.path == "/a":
            raise web.HTTPFound("/b")
        return web.Response(text="here")

    async with site(handler) as url:
        at = url.replace("127.0.0.1", "public.test")
        page = await fetch(f"{at}/a", accept="*/*", seconds=5, allow=["public.test"], lookup=lookup)
    assert (bytes(page.body), page.url) == (b"here", f"{at}/b")
    assert asked == ["public.test"] * 2
    assert hosts == [at.removeprefix("http://")] * 2


async def test_redirects_are_followed_up_to_a_bound() -> None:
    """[BT-171] Relative ones too, ten at most; a loop is an error that names the host."""

    async def handler(request: web.Request) -> web.Response:
        left = int(request.query["left"])
        if not left:
            return web.Response(text="end")
        status = [301, 302, 303, 307, 308][left % 5]
        return web.Response(status=status, headers={"Location": f"?left={left - 1}"})

    async with site(handler) as url:
        result = await webfetch(f"{url}/x?left={LIMITS['maxRedirects']}")
        assert (result.output, result.metadata["url"]) == ("end", f"{url}/x?left=0")
        with pytest.raises(ToolError, match=r"more than 10 redirects, the last one to '127\.0\.0\.1'"):
            await webfetch(f"{url}/x?left={LIMITS['maxRedirects'] + 1}")


async def test_a_slow_look_up_is_within_the_time_limit() -> None:
    """[BT-172] The limit begins before the first look-up."""
    end = threading.Event()

    def lookup(host: str) -> list[str]:
        end.wait(10)
        return ["127.0.0.1"]

    try:
        with pytest.raises(ToolError, match=r"no answer from 'public\.test' within 0\.1 s"):
            await fetch("http://public.test/", accept="*/*", seconds=0.1, allow=[], lookup=lookup)
    finally:
        end.set()


async def test_a_server_that_says_nothing_is_an_error_in_time() -> None:
    """[BT-172] Also one whose redirects take their time: the limit is one for all hops."""

    async def slow(request: web.Request) -> web.Response:
        await asyncio.sleep(0.06)
        raise web.HTTPFound(request.path + "x")

    async def silent(request: web.Request) -> web.Response:
        await asyncio.sleep(10)
        return web.Response()

    for handler in (slow, silent):
        async with site(handler) as url:
            with pytest.raises(ToolError, match=r"no answer from '127\.0\.0\.1' within 0\.2 s"):
                await webfetch(url, timeout=0.2)


async def test_a_dripping_body_is_cut_when_the_time_is_up() -> None:
    """[BT-172] What came until then is there, with a note; it is an error, and the connection is closed."""
    gone = asyncio.Event()
    async with site(streaming(iter([b"drop "] * 1_000), gone, pause=0.05)) as url:
        result = await webfetch(url, timeout=0.3)
        await gone.wait()
    assert result.output.startswith("drop ")
    assert result.output.endswith("\n[stopped after 0.3 s: the page is not complete]")
    assert result.is_error


async def test_the_time_limit_has_a_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-172] Thirty seconds unless asked otherwise, and never more than the ceiling."""
    from toolnexus.tools.builtin import webfetch as module

    monkeypatch.setattr(module, "_LIMITS", {**LIMITS, "maxTimeoutSeconds": 0.1})
    async with site(streaming(iter([b"x"]), asyncio.Event(), pause=10)) as url:
        assert "stopped after 0.1 s" in (await webfetch(url, timeout=600)).output
    assert (LIMITS["defaultTimeoutSeconds"], LIMITS["maxTimeoutSeconds"]) == (30, 120)


@pytest.mark.parametrize("announced", [None, 500_000_000])
async def test_a_body_without_end_is_cut_at_a_bound(announced: int | None) -> None:
    """[BT-173] Five million bytes are read and no more, whatever length is announced."""
    gone, sent = asyncio.Event(), [0]
    chunks = endless(b"line\n" * 10_000, sent)
    async with site(streaming(chunks, gone, length=announced)) as url, lively_loop():
        result = await webfetch(url)
        await gone.wait()
    text, note = result.output[:MOST], result.output[MOST:]
    assert set(text.split("\n")) == {"line", ""}
    assert note == f"\n[cut after {MOST} bytes: the page goes on]"
    assert not result.is_error
    assert sent[0] < 4 * MOST


async def test_a_body_of_just_the_bound_is_whole() -> None:
    """[BT-173] The bound itself is allowed."""
    async with site(always("x" * MOST)) as url:
        assert (await webfetch(url)).output == "x" * MOST


@pytest.mark.parametrize("content_type", ["image/png", "text/plain", "application/octet-stream"])
async def test_an_image_comes_as_a_media_part(content_type: str) -> None:
    """[BT-176] Known by its first bytes, whatever the server calls it."""
    async with site(always(PNG, content_type)) as url:
        result = await webfetch(f"{url}/a.png")
        assert result.parts == (MediaPart("image/png", data=base64.b64encode(PNG).decode()),)
        assert result.output == f"{url}/a.png: image/png, {len(PNG)} bytes"


async def test_an_image_that_is_too_large_or_torn_is_refused() -> None:
    """[BT-176] A part of an image is no image."""
    async with site(always(PNG + b"\0" * MOST, "image/png")) as url:
        with pytest.raises(ToolError, match=f"the image is larger than {MOST} bytes"):
            await webfetch(url)
    async with raw_site(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + PNG) as url:
        with pytest.raises(ToolError, match="the image did not come whole"):
            await webfetch(url)


@pytest.mark.parametrize(
    ("body", "content_type", "told"),
    [
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "application/pdf", "application/pdf, 15 bytes"),
        (b"PK\x03\x04\0\0", "application/zip", "application/zip, 6 bytes"),
        (b"a\0b", "text/plain", "text/plain, 3 bytes"),
        (b"\xff\xfb\x90\0", "", "no declared type, 4 bytes"),
    ],
)
async def test_another_binary_file_is_refused(body: bytes, content_type: str, told: str) -> None:
    """[BT-177] The error says type and size."""
    declared = f"Content-Type: {content_type}\r\n" if content_type else ""
    head = f"HTTP/1.1 200 OK\r\n{declared}Content-Length: {len(body)}\r\n\r\n"
    async with raw_site(head.encode() + body) as url:
        with pytest.raises(ToolError, match=f"{told}: a binary file"):
            await webfetch(url)


async def test_a_large_binary_file_is_not_loaded() -> None:
    """[BT-177] Its first bytes are enough to refuse it."""
    gone, sent = asyncio.Event(), [0]
    chunks = endless(b"\0" * 10_000, sent)
    async with site(streaming(chunks, gone, pause=0.001, length=500_000_000)) as url:
        with pytest.raises(ToolError, match="text/plain, 500000000 bytes: a binary file"):
            await webfetch(url)
        await gone.wait()
    assert sent[0] < MOST


async def test_many_pages_come_side_by_side() -> None:
    """[BT-183] Fifty fetches are in flight together, and a large page is converted beside the loop."""
    met = [0]
    everybody = asyncio.Event()
    page = "<table>" + "<tr><td>a<td>b" * 20_000

    async def handler(request: web.Request) -> web.Response:
        met[0] += 1
        if met[0] == 50:
            everybody.set()
        await everybody.wait()
        return web.Response(text=page if request.path == "/1" else request.path, content_type="text/html")

    async with site(handler) as url:
        async with lively_loop(0.5), asyncio.TaskGroup() as tasks:
            fetching = [tasks.create_task(webfetch(f"{url}/{n}")) for n in range(50)]
    outputs = [task.result().output for task in fetching]
    assert outputs[1].count("| a | b |") == 20_000
    assert [o for n, o in enumerate(outputs) if n != 1] == [f"/{n}" for n in range(50) if n != 1]


async def test_a_page_that_cannot_be_converted_in_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """[BT-183] The error names the format that needs no conversion."""
    from toolnexus.tools.builtin import webfetch as module

    monkeypatch.setattr(module, "_LIMITS", {**LIMITS, "convertSeconds": 0.1})
    body = "<table>" + "<tr><td>a<td>b" * 20_000
    async with site(always(body, "text/html")) as url:
        with pytest.raises(ToolError, match=r"stopped after 0\.1 s; .* ask for format 'html'"):
            await webfetch(url)
        assert (await webfetch(url, format="html")).output == body
