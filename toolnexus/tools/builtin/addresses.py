"""Where `webfetch` may connect to: public addresses, and the hosts that were allowed by name.

Every hop of every fetch asks `addresses_for`, and connects to nothing but what it answers.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from yarl import URL

from toolnexus.errors import ToolError
from toolnexus.runtime.threads import run_in_thread

Lookup = Callable[[str], list[str]]
"""The addresses of a host name, in the order to try them. Blocking; raises `OSError`."""

_CLOSED_V4 = [
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "an unspecified"),
        ("10.0.0.0/8", "a private"),
        ("100.64.0.0/10", "a private"),  # shared with the customers of a provider
        ("127.0.0.0/8", "a loopback"),
        ("168.63.129.16/32", "a private"),  # looks public: the platform behind every Azure machine
        ("169.254.0.0/16", "a link-local"),
        ("172.16.0.0/12", "a private"),
        ("192.0.0.0/24", "a reserved"),
        ("192.0.2.0/24", "a reserved"),
        ("192.88.99.0/24", "a reserved"),
        ("192.168.0.0/16", "a private"),
        ("198.18.0.0/15", "a reserved"),
        ("198.51.100.0/24", "a reserved"),
        ("203.0.113.0/24", "a reserved"),
        ("224.0.0.0/4", "a multicast"),
        ("240.0.0.0/4", "a reserved"),
    )
]
_CLOSED_V6 = [
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/128", "an unspecified"),
        ("::1/128", "a loopback"),
        ("::ffff:0:0/96", "an IPv4-mapped"),
        ("2001::/23", "a reserved"),  # Teredo among them
        ("2001:db8::/32", "a reserved"),
        ("2002::/16", "a 6to4"),
        ("3fff::/20", "a reserved"),
        ("fc00::/7", "a private"),
        ("fe80::/10", "a link-local"),
        ("ff00::/8", "a multicast"),
    )
]
_PUBLIC_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)


def system_lookup(host: str) -> list[str]:
    """The addresses that the system's resolver gives."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


def not_public(address: IPv4Address | IPv6Address) -> str | None:
    """What keeps `address` from being a public one (`"a loopback"`, `"a private"`, …), or None."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _CLOSED_V4 if address in network), None)
    if address in _NAT64:  # how a network without IPv4 reaches the rest: it stands for what it embeds
        return not_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    kind = next((kind for network, kind in _CLOSED_V6 if address in network), None)
    return kind or (None if address in _PUBLIC_V6 else "a reserved")


async def addresses_for(url: URL, allow: Iterable[str], lookup: Lookup) -> list[str]:
    """The addresses that a request for `url` may connect to, at least one.

    A host in `allow` may have any address. Raises `ToolError` when the host is written in a way that
    is not understood, is not known, or has no public address; the text never names an address.
    """
    host = _host_of(url)
    literal = _literal(host)
    found = [host] if literal else await _looked_up(host, lookup)
    if host in {_normal(name) for name in allow}:
        return found
    kinds = {address: not_public(ip_address(address)) for address in found}
    public = [address for address, kind in kinds.items() if kind is None]
    if not public:
        verb = "is" if literal else "has"
        raise ToolError(
            f"{host!r} {verb} {kinds[found[0]]} address; only public addresses are fetched, "
            "and hosts that the program lists in webfetch_allow"
        )
    return public


async def _looked_up(host: str, lookup: Lookup) -> list[str]:
    try:
        found = await run_in_thread(lambda: [str(address) for address in lookup(host)])
    except (OSError, UnicodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "it is no host name"
        raise ToolError(f"the host {host!r} cannot be found: {reason}") from error
    except Exception as error:  # a look-up that the program brings itself
        raise ToolError(f"the host {host!r} cannot be looked up: {type(error).__name__}") from error
    if not found:
        raise ToolError(f"the host {host!r} has no address")
    try:
        for address in found:
            ip_address(address)
    except ValueError as error:
        raise ToolError(f"the look-up of {host!r} gave something that is no address") from error
    return found


def _host_of(url: URL) -> str:
    """The host in the one spelling that is compared."""
    host = _normal(url.raw_host or "")
    if host == url.raw_host and _literal(host):
        return host
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        raise ToolError(f"{host!r} is no usual way to write an address; write four decimal numbers or a name")
    if not _NAME.fullmatch(host) or len(host) > 253:
        raise ToolError(
            f"{host[:100]!r} is no host name; give an absolute URL such as 'https://example.com/'"
        )
    return host


def _literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return "%" not in host


def _normal(host: str) -> str:
    """Lower case, in ASCII, without a dot at the end; an address as short as it can be."""
    host = host.removeprefix("[").removesuffix("]")
    try:
        return str(ip_address(host))
    except ValueError:
        pass
    try:
        host = URL.build(scheme="http", host=host).raw_host or host
    except ValueError:
        pass
    return host.lower().removesuffix(".")
