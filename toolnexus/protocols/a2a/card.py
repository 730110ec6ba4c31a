"""The card of an agent: found, read, and believed as far as it deserves.

A card comes from outside. It may point anywhere, so what the user's headers hold goes only to the
origin that the user named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from ipaddress import ip_address
from typing import Any, cast
from urllib.parse import SplitResult, urljoin, urlsplit

from a2a.client.card_resolver import parse_agent_card
from a2a.types import AgentCard, AgentInterface

from toolnexus.core.values import frozen
from toolnexus.protocols.a2a.http import Fault, Wire

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""Where cards are; the second one before protocol 0.3."""
BINDINGS = ("JSONRPC", "HTTP+JSON")
_MOST_CARD = 1 << 20
_ABSENT = frozenset((404, 405, 410))
_PORTS = {"http": 80, "https": 443}


@frozen()
class Skill:
    """One thing that an agent says it can do."""

    id: str
    name: str
    description: str


@frozen()
class Found:
    """A card that was read, and the one interface of it that is used."""

    card: AgentCard
    """With that interface alone."""
    trusted: bool
    """Whether that is at the origin that the user named: only then it gets the user's headers."""

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def description(self) -> str:
        return self.card.description

    @property
    def skills(self) -> list[Skill]:
        return [Skill(skill.id, skill.name, skill.description) for skill in self.card.skills]


async def fetch(wire: Wire, url: str, *, is_card: bool) -> Found:
    """The card at `url`, or of the agent at `url`. Raises `Fault` and what HTTP raises."""
    places = [url] if is_card else _places(url)
    for place in places:
        response = await wire.get(place, headers={"Accept": "application/json"})
        if response.status_code in _ABSENT:
            continue
        response.raise_for_status()
        if len(response.content) > _MOST_CARD:
            raise Fault(f"its card is larger than {_MOST_CARD >> 20} MiB")
        return read(json.loads(response.content), place)
    others = ", nor at the other usual places" if len(places) > 1 else ""
    raise Fault(f"there is no agent card at {places[0]}{others}")


def _places(url: str) -> list[str]:
    """Below the address itself first, then at the top of its host."""
    base = url.rstrip("/")
    root = urljoin(url, "/").rstrip("/")
    return list(dict.fromkeys([at + path for at in (base, root) for path in WELL_KNOWN]))


def read(data: Any, named: str | None) -> Found:
    """The card that `data` is, of any protocol version. `named`: the address it came from, None when
    the user gave the card himself. Raises `Fault`."""
    if not isinstance(data, Mapping):
        raise Fault("its card is no JSON object")
    try:
        card = parse_agent_card(deepcopy(dict(cast("Mapping[str, Any]", data))))
    except Exception as error:
        raise Fault(f"its card is malformed: {' '.join(str(error).split())[:200]}") from error
    interface, trusted = _chosen(card, named)
    del card.supported_interfaces[:]
    card.supported_interfaces.append(interface)
    return Found(card, trusted)


def _chosen(card: AgentCard, named: str | None) -> tuple[AgentInterface, bool]:
    """The best interface that we speak, and whether its origin is trusted."""
    usable: list[tuple[bool, int, AgentInterface]] = []
    refused: list[str] = []
    for offered in card.supported_interfaces:
        url = offered.url if named is None else urljoin(named, offered.url)
        why, trusted = _refusal(url, named)
        legacy = _is_legacy(offered.protocol_version)
        if offered.protocol_binding not in BINDINGS or legacy is None:
            why = f"{offered.protocol_binding} {offered.protocol_version} is not spoken here"
        if why is not None:
            refused.append(f"{offered.url!r}: {why}")
            continue
        interface = AgentInterface()
        interface.CopyFrom(offered)
        interface.url = url
        interface.protocol_version = "0.3" if legacy else "1.0"
        usable.append((not trusted, bool(legacy), interface))
    if not usable:
        said = f" ({'; '.join(refused[:5])})" if refused else ""
        raise Fault(f"its card offers no interface for {' or '.join(BINDINGS)} 1.0 or 0.3{said}")
    untrusted, _, interface = min(usable, key=lambda entry: entry[:2])  # the first of equals
    return interface, not untrusted


def _refusal(url: str, named: str | None) -> tuple[str | None, bool]:
    """Why `url` is not asked at all, if so; and whether it is at the origin that the user named."""
    try:
        there = urlsplit(url)
        here = None if named is None else urlsplit(named)
        there_origin, here_origin = _origin(there), _origin(here) if here is not None else None
    except ValueError:
        return "it is no address", False
    if there.scheme not in _PORTS or not there.hostname:
        return "it is no http(s) address", False
    if here is None or there_origin == here_origin:
        return None, True
    if here.scheme == "https" and there.scheme == "http":
        return "it is not encrypted, unlike its card", False
    if _is_local(there.hostname) and not _is_local(here.hostname or ""):
        return "it is inside of a private network, unlike its card", False
    return None, False


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _is_local(host: str) -> bool:
    try:
        return not ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal"))


def _is_legacy(version: str) -> bool | None:
    """Whether this version is spoken as 0.3; None for one that is not spoken."""
    major = version.partition(".")[0]
    return {"": False, "1": False, "0": True}.get(major)
