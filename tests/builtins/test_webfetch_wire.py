"""What `webfetch` sends, unpacks and decodes, and what becomes of a connection."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from aiohttp import web

from tests.builtins.helpers import lively_loop
from tests.builtins.websites import always, raw_site, site, webfetch
from toolnexus.errors import ToolError
from toolnexus.tools.builtin.loader import definition

pytestmark = pytest.mark.anyio

MOST = definition("webfetch").limits["maxBodyBytes"]


ONE, TWO = gzip.compress(b"one", mtime=0), gzip.compress(b"two", mtime=0)


async def test_a_bomb_is_unpacked_no_further_than_the_bound() -> None:
    """[BT-174] Half a gigabyte packed into half a megabyte costs what five million bytes cost."""
    bomb = gzip.compress(b"x" * 10_000_000) * 50
    async with site(always(bomb, Content_Encoding="gzip")) as url, lively_loop():
        result = await webfetch(url)
    assert result.output == "x" * MOST + f"\n[cut after {MOST} bytes: the page goes on]"


@pytest.mark.parametrize(
    ("body", "expected", "failed"),
    [
        (ONE, "one", False),
        (ONE + TWO, "onetwo", False),
        (ONE + b"\0" * 50, "one", False),
        (gzip.compress(b"x" * 100_000, 0, mtime=0)[:50_000], "x" * 40_000, True),
        (ONE + b"\x1f broken", "one", True),
    ],
    ids=["one", "members", "padding", "torn", "wrong"],
)
async def test_a_packed_body_is_unpacked(body: bytes, expected: str, failed: bool) -> None:
    """[BT-174] Members, padding, and as much as came of a body that is torn or wrong."""
    async with site(always(body, Content_Encoding="gzip")) as url:
        result = await webfetch(url)
    text, _, note = result.output.partition("\n")
    assert text.startswith(expected) and set(text) == set(expected)
    assert result.is_error == failed
    assert note == ("[the connection broke off: the page is not complete]" if failed else "")


async def test_another_packing_is_refused() -> None:
    """[BT-174] Only gzip is asked for."""
    async with site(always(b"x", Content_Encoding="br")) as url:
        with pytest.raises(ToolError, match="packed the page with 'br'; only gzip"):
            await webfetch(url)


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        ("grüße".encode("latin-1"), "text/plain; charset=iso-8859-1", "grüße"),
        ("“€”".encode("cp1252"), 'text/plain;charset="ISO-8859-1"', "“€”"),
        ("grüße".encode("cp1252"), "text/plain", "grüße"),
        ("日本".encode("shift_jis"), "text/plain; charset=Shift_JIS", "日本"),
        ("ä".encode("utf-8-sig"), "text/plain; charset=iso-8859-1", "ä"),
        ("ä\nb".encode("utf-16"), "text/plain", "ä\nb"),
        ("ä\nb".encode("utf-16-be"), "text/plain; charset=utf-16be", "ä\nb"),
        ("ä".encode("utf-16-le"), "text/plain; charset=utf-16", "ä"),
        ("ä".encode("utf-32"), "text/plain", "ä"),
        (b"<meta charset=koi8-r><p>\xc1", "text/html", "\u0430"),
        (b"<?xml version='1.0' encoding='iso-8859-5'?><a>\xd0</a>", "text/xml", "\u0430</a>"),
        ("<meta charset=utf-16>ä".encode(), "text/html", "ä"),
        ("ä".encode(), "text/plain; charset=nonsense", "ä"),
        ("ä".encode(), "text/plain; charset=punycode", "ä"),
        ("ä".encode(), "text/plain; charset=undefined", "ä"),
        ("ä".encode(), "text/plain; charset=zlib", "ä"),
        ("ä".encode(), "text/plain; charset=../x", "ä"),
        ("ä".encode(), "text/plain; charset*=utf-8''%ff; charset=", "ä"),
        (b"a\xffb", "text/plain; charset=utf-8", "a\ufffdb"),
        (b"a\xffb\x1b$B", "text/plain; charset=iso-2022-jp", "a\ufffdb"),
    ],
)
async def test_a_text_is_decoded_by_what_says_how(body: bytes, content_type: str, expected: str) -> None:
    """[BT-175] Mark, header, declaration in the text, then what fits; wrong bytes and names are no error."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    async with raw_site(head.encode() + body) as url:
        assert (await webfetch(url)).output.endswith(expected)


async def test_a_character_that_is_cut_is_left_out() -> None:
    """[BT-175] The bound on bytes never makes half a character."""
    async with site(always("x" + "ä" * (MOST // 2))) as url:
        assert (await webfetch(url)).output.split("\n")[0] == "x" + "ä" * (MOST // 2 - 1)


@pytest.mark.parametrize("begun", [False, True])
async def test_a_cancel_closes_the_connection_at_once(begun: bool) -> None:
    """[BT-180] The server sees it go, before the answer has begun and in its midst."""
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if begun:
            await response.prepare(request)
            await response.write(b"x" * 20_000)
        arrived.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            gone.set()
            raise
        return response

    async with site(handler) as url:
        fetching = asyncio.create_task(webfetch(url))
        await arrived.wait()
        fetching.cancel()
        async with asyncio.timeout(2):
            with pytest.raises(asyncio.CancelledError):
                await fetching
            await gone.wait()


async def test_nothing_of_ours_is_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """[BT-181] No proxy, no password file, no cookie; a plain name of what asks."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret-7\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://me:secret-7@127.0.0.1:9")
    seen: list[dict[str, str]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(dict(request.headers))
        cookie = {"Set-Cookie": "k=v"}
        if request.path == "/a":
            return web.Response(status=302, headers={"Location": "/b", **cookie})
        return web.Response(text="end", headers=cookie)

    async with site(handler) as url:
        assert (await webfetch(f"{url}/a")).output == "end"
        assert (await webfetch(f"{url}/b")).output == "end"
    sent = {
        "Host": url.removeprefix("http://"),
        "User-Agent": "toolnexus",
        "Accept": seen[0]["Accept"],
        "Accept-Encoding": "gzip",
        "Connection": "close",
    }
    assert seen == [sent] * 3
    assert sent["Accept"].startswith("text/markdown")


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-OpenSSH_9.9\r\n", b"", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000]
)
async def test_a_server_that_does_not_answer_well_is_an_error(answer: bytes) -> None:
    """[BT-182] The error names the host and the reason, in a line."""
    async with raw_site(answer) as url:
        with pytest.raises(ToolError, match=r"^cannot fetch from '127\.0\.0\.1': \S") as caught:
            await webfetch(url)
    assert len(str(caught.value)) < 400


async def test_a_server_that_is_not_there_is_an_error() -> None:
    """[BT-182] Refused connections say so."""
    async with raw_site(b"") as url:
        pass
    with pytest.raises(ToolError, match=r"cannot fetch from '127\.0\.0\.1': Connection refused"):
        await webfetch(url)


async def test_a_body_that_breaks_off_is_there_as_far_as_it_came() -> None:
    """[BT-182] It is an error with a note; long headers are none."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nContent-Type: text/html\r\nX: " + b"x" * 30_000
    async with raw_site(head + b"\r\n\r\n<p>half") as url:
        result = await webfetch(url)
    assert result.output == "half\n[the connection broke off: the page is not complete]"
    assert result.is_error and result.metadata["status"] == 200


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
async def test_a_certificate_that_nobody_vouches_for_is_an_error(tmp_path: Path) -> None:
    """[BT-182] Encrypted connections are checked like those of a browser."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    async with site(always("x"), tls) as url:
        with pytest.raises(ToolError, match=r"its certificate is not accepted: .*self.signed"):
            await webfetch(url)
