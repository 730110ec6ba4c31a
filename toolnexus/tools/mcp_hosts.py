"""What the files of other hosts hold beyond our own keys, and what is said about it.

Nothing is dropped silently: each key that changes nothing here is in `ServerConfig.ignored`, in
the log (a warning when its loss weakens safety or may break the server) and in `mcp_report`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolnexus.core.values import frozen

STDIO_KEYS = ("command", "args", "env", "environment", "envFile", "cwd")
HTTP_KEYS = ("url", "headers")

_SHOWN = 5

_UNCONFINED = "the server runs without a sandbox"
_NO_OAUTH = "there is no OAuth here; put a token into 'headers'"
_ALL_TOOLS = "it is no list of names, or 'tools' is there, too; narrow its tools with 'tools'"
_HEADERS = "write 'headers' instead"
_ADDRESS = "the address under 'url' is taken"
_ONE_TIMEOUT = "'timeout', in milliseconds, bounds connecting and each call"
_APPROVAL = "it approves nothing in advance here"
_DESCRIBES = "it only describes the server"
_START = "a server starts when the client opens"
_TRANSPORT = "the transport follows from 'type', or from 'command' or 'url'"

_SERIOUS: Mapping[str, str] = {
    "sandbox": _UNCONFINED,
    "sandboxEnabled": _UNCONFINED,
    "auth": _NO_OAUTH,
    "oauth": _NO_OAUTH,
    "oidc": _NO_OAUTH,
    "authProviderType": _NO_OAUTH,
    "headersHelper": "it is not run; " + _HEADERS,
    "http_headers": _HEADERS,
    "env_http_headers": _HEADERS,
    "bearer_token_env_var": _HEADERS,
    "httpUrl": _ADDRESS,
    "serverUrl": _ADDRESS,
    "disabledTools": _ALL_TOOLS,
    "disabled_tools": _ALL_TOOLS,
    "enabledTools": _ALL_TOOLS,
    "enabled_tools": _ALL_TOOLS,
    "excludeTools": _ALL_TOOLS,
    "includeTools": _ALL_TOOLS,
    "env_vars": "its variables are not passed on; write them under 'env'",
    "startup_timeout_sec": _ONE_TIMEOUT,
    "tool_timeout_sec": _ONE_TIMEOUT,
}
_HARMLESS: Mapping[str, str] = {
    "alwaysAllow": _APPROVAL,
    "autoApprove": _APPROVAL,
    "trust": _APPROVAL,
    "alwaysLoad": "all tools are offered from the start",
    "autoStart": _START,
    "required": "a server that fails does not stop the others",
    "dev": "servers are neither watched nor debugged here",
    "transport": _TRANSPORT,
    "transportType": _TRANSPORT,
    **dict.fromkeys(
        "$schema description displayName gallery icon id name scope source title version".split(), _DESCRIBES
    ),
}
_DOCUMENT: Mapping[str, str] = {
    "sandbox": "the servers run without a sandbox",
    "projects": "servers of other folders than the working folder are left out",
    "disabledMcpServers": "it holds for the project that it stands in",
    "disabledMcpjsonServers": "a server that is named there starts all the same",
    "enabledMcpjsonServers": "a server that is not named there starts all the same",
    "allowedMcpServers": "a server that is not named there starts all the same",
    "deniedMcpServers": "a server that is named there starts all the same",
    **dict.fromkeys(("mcpServers", "mcp_servers", "servers", "mcp"), "the servers of another key are taken"),
}
"""Keys beside servers whose loss matters."""


def is_foreign(key: str) -> bool:
    """Whether another host has such a key, or it is the usual way to write a comment in JSON."""
    return key in _SERIOUS or key in _HARMLESS or _is_comment(key)


@frozen()
class Note:
    """Something that is to be said about a document; no value is shown."""

    text: str
    serious: bool = True
    """Whether safety or function may be lost: a warning, else it is for whoever looks."""


def key_note(source: str, server: str, key: str, *, matters: bool) -> Note:
    """A key of a server changes nothing. `matters`: it has a value, and the server is on."""
    serious = matters and key not in _HARMLESS and not _is_comment(key)
    return Note(server_line(source, server, key), serious)


def server_line(source: str, server: str, key: str) -> str:
    """What is said about a key of a server: what and why, never its value."""
    return f"{source}: server {server!r}: key {key!r} is not carried over: {_why(key)}"


def _why(key: str) -> str:
    if key in STDIO_KEYS:
        return "only a server with a 'command' has it"
    if key in HTTP_KEYS:
        return "only a server with a 'url' has it"
    if _is_comment(key):
        return "it is a comment"
    return _SERIOUS.get(key) or _HARMLESS.get(key) or "nothing here knows it"


def beside_notes(source: str, keys: Iterable[str]) -> list[Note]:
    """Keys of a document that are no servers and change nothing; many that do not matter are one note."""
    notes: list[Note] = []
    plain: list[str] = []
    for key in keys:
        if key in _DOCUMENT:
            notes.append(Note(f"{source}: key {key!r} is not carried over: {_DOCUMENT[key]}"))
        else:
            plain.append(key)
    if len(plain) == 1:
        notes.append(Note(f"{source}: key {plain[0]!r} is not carried over: it is about no server", False))
    elif plain:
        shown = ", ".join(map(repr, plain[:_SHOWN]))
        many = f", … ({len(plain)} in all)" if len(plain) > _SHOWN else ""
        notes.append(
            Note(f"{source}: keys {shown}{many} are not carried over: they are about no server", False)
        )
    return notes


def _is_comment(key: str) -> bool:
    return key.startswith(("_", "//", "#"))


def says_nothing(value: Any) -> bool:
    """Whether a value asks for nothing: null, false, or empty."""
    return value is None or value is False or (isinstance(value, str | list | tuple | Mapping) and not value)
