"""Where `webfetch` may connect to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Any

import pytest
from yarl import URL

from toolnexus.errors import ToolError
from toolnexus.tools.builtin.addresses import addresses_for, not_public, system_lookup

pytestmark = pytest.mark.anyio


def no_lookup(host: str) -> list[str]:
    raise AssertionError(f"{host} was looked up")


async def reached(url: str, *found: str, allow: Sequence[str] = ()) -> list[str]:
    """The addresses for `url` when its host has the addresses `found`."""
    return await addresses_for(URL(url), allow, (lambda _: list(found)) if found else no_lookup)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("100.100.100.200", "private"),
        ("168.63.129.16", "private"),
        ("169.254.169.254", "link-local"),
        ("192.0.0.192", "reserved"),
        ("192.0.2.1", "reserved"),
        ("198.18.0.1", "reserved"),
        ("198.51.100.1", "reserved"),
        ("203.0.113.1", "reserved"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.255", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::127.0.0.1", "reserved"),
        ("::ffff:127.0.0.1", "IPv4-mapped"),
        ("::ffff:8.8.8.8", "IPv4-mapped"),
        ("::ffff:0:127.0.0.1", "reserved"),
        ("64:ff9b::127.0.0.1", "loopback"),
        ("64:ff9b::10.0.0.1", "private"),
        ("64:ff9b:1::8.8.8.8", "reserved"),
        ("100::1", "reserved"),
        ("2001::1", "reserved"),
        ("2001:db8::1", "reserved"),
        ("2002:7f00:1::1", "6to4"),
        ("3fff::1", "reserved"),
        ("5f00::1", "reserved"),
        ("fc00::1", "private"),
        ("fd00:ec2::254", "private"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fec0::1", "reserved"),
        ("ff02::1", "multicast"),
    ],
)
def test_an_address_that_is_not_public_is_told_from_those_that_are(address: str, kind: str) -> None:
    """[BT-164] Loopback, private, link-local, shared, multicast, reserved and embedding addresses are not."""
    assert str(not_public(ip_address(address))).endswith(f" {kind}")


@pytest.mark.parametrize(
    "address",
    [
        *(
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
        ),
        *(
            "128.0.0.0",
            "169.253.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.167.0.1",
            "198.17.0.1",
            "223.255.255.255",
        ),
        *("2606:4700::1111", "2001:200::1", "2a00:1450::1", "2003::1", "64:ff9b::8.8.8.8"),
    ],
)
async def test_a_public_address_is_reached(address: str) -> None:
    """[BT-164] Every other address is public, also behind the gateway of a network without IPv4."""
    assert not_public(ip_address(address)) is None
    host = f"[{address}]" if ":" in address else address
    assert await reached(f"http://{host}:8080/x") == [str(ip_address(address))]
    assert await reached("https://example.com/", address) == [address]


@pytest.mark.parametrize(
    "host",
    [
        *(
            "2130706433",
            "0",
            "127.1",
            "127.0.1",
            "0x7f.1",
            "0x7f000001",
            "0X7F.0.0.1",
            "0177.0.0.1",
            "017700000001",
        ),
        *(
            "08.8.8.8",
            "8.8.8.8.",
            "1.2.3",
            "1.2.3.4.5",
            "256.1.1.1",
            "0x",
            "\uff12\uff11\uff13\uff10\uff17\uff10",
        ),
        *("127%2e0.0.1", "%6cocalhost", "a..b", ".", "a b", "a\0b", "a,b", "x" * 64, "x." * 130 + "x"),
        *("[::1%25lo]", "[fe80::1%25eth0]", "localhost.."),
    ],
)
async def test_a_host_in_an_odd_spelling_is_refused(host: str) -> None:
    """[BT-165] Short, decimal, octal and hexadecimal addresses and what is no name are not even looked up."""
    with pytest.raises(ToolError, match=r"is no usual way to write an address|is no host name"):
        await addresses_for(URL(f"http://{host}/"), ["localhost", "127.0.0.1", "::1"], no_lookup)


@pytest.mark.parametrize(
    "url",
    [
        "http://LOCALHOST/",
        "http://localhost./",
        "http://ⓛocalhost:81/",
        "http://127。0.0.1/",
        "http://[0::1]/",
    ],
)
async def test_another_spelling_of_a_local_host_is_that_host(url: str) -> None:
    """[BT-165] Case, a dot at the end and other alphabets make no difference, also in what is allowed."""
    with pytest.raises(ToolError, match="a loopback address; only public"):
        await addresses_for(URL(url), [], system_lookup)
    assert await addresses_for(URL(url), ["LocalHost.", "127.0.0.1", "[::1]"], system_lookup)


async def test_an_international_name_is_compared_in_its_ascii_form() -> None:
    """[BT-166] `bücher.example` in the list allows `xn--bcher-kva.example`, and the other way round."""
    for url in ("http://bücher.example/", "http://xn--bcher-kva.example/"):
        for name in ("Bücher.example", "xn--bcher-kva.example"):
            assert await reached(url, "10.0.0.1", allow=[name]) == ["10.0.0.1"]


async def test_a_host_is_allowed_by_its_name_alone() -> None:
    """[BT-166] An allowed host may have any address; another one with that address may not have it."""
    assert await reached("http://db.internal/", "10.0.0.1", "::1", allow=["db.internal"]) == [
        "10.0.0.1",
        "::1",
    ]
    for url in ("http://x.db.internal/", "http://internal/", "http://db.internal.example/"):
        with pytest.raises(ToolError, match="has a private address"):
            await reached(url, "10.0.0.1", allow=["db.internal"])
    with pytest.raises(ToolError, match=r"'10\.0\.0\.1' is a private address"):
        await reached("http://10.0.0.1/", allow=["db.internal"])


async def test_of_a_host_with_both_kinds_of_addresses_only_the_public_ones_are_left() -> None:
    """[BT-166] Filtering is for each address; the error names the kind of a local one, never the address."""
    assert await reached("http://x.example/", "10.0.0.1", "8.8.8.8", "::1") == ["8.8.8.8"]
    with pytest.raises(ToolError) as caught:
        await reached("http://x.example/", "10.0.0.1", "fe80::1%eth0")
    assert "webfetch_allow" in str(caught.value)
    assert "10.0" not in str(caught.value)


async def test_a_host_that_is_not_found_is_an_error_with_the_reason() -> None:
    """[BT-167] The look-up runs in a thread; its failure and an empty answer name the host."""
    threads: list[int] = []

    def fails(host: str) -> list[str]:
        threads.append(threading.get_ident())
        raise socket.gaierror(socket.EAI_NONAME, "Name not known")

    with pytest.raises(ToolError, match=r"the host 'x\.invalid' cannot be found: Name not known"):
        await addresses_for(URL("http://x.invalid/"), [], fails)
    assert threads != [threading.get_ident()]
    with pytest.raises(ToolError, match=r"the host 'x\.invalid' has no address"):
        await addresses_for(URL("http://x.invalid/"), [], lambda _: [])


ODD: list[Callable[[str], Any]] = [
    lambda _: ["no address"],
    lambda _: [7],
    lambda _: "10.0.0.1",
    lambda _: None,
    lambda _: ["93.184.216.34", None],
    lambda _: 1 // 0,
]


@pytest.mark.parametrize("odd", ODD)
async def test_a_look_up_that_answers_nonsense_is_an_error(odd: Any) -> None:
    """[BT-167] One that the program brings itself may fail in any way: the error names the host."""
    with pytest.raises(ToolError, match=r"'x\.example'"):
        await addresses_for(URL("http://x.example/"), [], odd)
