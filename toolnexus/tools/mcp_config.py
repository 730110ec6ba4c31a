"""Configuration of MCP servers: the files that other hosts have, and mappings of the same shape."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import field
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import urlsplit

from toolnexus.core.names import did_you_mean
from toolnexus.core.values import frozen
from toolnexus.errors import ConfigError
from toolnexus.protocols.mcp.endpoint import Endpoint
from toolnexus.tools.filters import NameFilter
from toolnexus.tools.mcp_document import find_servers, read_document
from toolnexus.tools.mcp_entry import Entry, kind_of
from toolnexus.tools.mcp_foreign import as_ours, with_variables
from toolnexus.tools.mcp_hosts import (
    HTTP_KEYS,
    STDIO_KEYS,
    Note,
    beside_notes,
    key_note,
    server_line,
)
from toolnexus.tools.mcp_values import Reader, Values, read_env_file

logger = logging.getLogger("toolnexus.mcp")

TYPES = ("stdio", "local", "http", "streamable-http", "streamableHttp", "streamable_http", "remote")
"""What `type` may say, beside `UNSUPPORTED`."""
PROTOCOLS = ("auto", "handshake", "stateless")
MAX_TIMEOUT = 24 * 60 * 60 * 1000
"""Milliseconds."""
_SHORT_TIMEOUT = 100

HOST_FOLDERS = (".vscode", ".cursor", ".codex", ".gemini", ".opencode")
_STDIO, _HTTP = TYPES[:2], TYPES[2:]
_NO_SSE = "the SSE transport is not supported; use the server's streamable HTTP address with type 'http'"
_NO_SOCKET = "WebSocket is not supported; use the server's streamable HTTP address with type 'http'"
UNSUPPORTED = {
    "sse": _NO_SSE,
    "ws": _NO_SOCKET,
    "websocket": _NO_SOCKET,
    "sdk": "a server inside of another host cannot be reached from here",
}
"""Types that other hosts know. Such a server fails alone, with this reason."""
_UNSUPPORTED_SCHEMES = ("ws", "wss", "unix", "pipe")


@frozen(kw_only=True)
class ServerConfig(Endpoint):
    """One configured MCP server. `repr` shows no argument, value or address beyond the host."""

    enabled: bool = True
    tools: NameFilter = field(default=NameFilter(), repr=False)
    """Which tools are offered, by original names."""
    problem: str | None = None
    """Why it cannot connect, where that is known already."""
    secret_names: tuple[str, ...] = ()
    """The environment variables of ours that its secrets came from."""
    ignored: tuple[str, ...] = ()
    """Keys of its object that change nothing here; `mcp_report` says why."""
    source: str = field(default="mcp", compare=False)
    """The file that it stands in, or `mcp` for a mapping."""
    beside: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Keys beside the servers of that file that change nothing here."""


@frozen()
class McpConfig:
    """What a configuration gave."""

    servers: tuple[ServerConfig, ...]
    notes: tuple[Note, ...]
    """What is to be said about it."""


def load_mcp_config(source: str | PathLike[str] | Mapping[str, Any]) -> tuple[ServerConfig, ...]:
    """The servers of a JSON or TOML file, or of a mapping of the same shape, in their order.

    The servers stand under `mcpServers`, `mcp_servers`, `servers` or `mcp`, or are the document itself.
    `${NAME}`, `${env:NAME}` and `${NAME:-default}` are expanded in commands, values and addresses
    of enabled servers; `${input:id}` is read from the variable `ID`. Comments and trailing commas
    in JSON are accepted. A key of another host is logged and listed in `ignored`.

    Raises `ConfigError` that names the file, the server and the key.
    """
    found = read_mcp_config(source)
    for note in found.notes:
        logger.log(logging.WARNING if note.serious else logging.INFO, "%s", note.text)
    return found.servers


def read_mcp_config(source: str | PathLike[str] | Mapping[str, Any], folder: Path | None = None) -> McpConfig:
    """`load_mcp_config` that logs nothing and tells what it would have logged.

    `folder` is the project that the source belongs to, if its place does not say so.
    """
    notes: list[Note] = []
    if isinstance(source, Mapping):
        where, document = "mcp", cast("Mapping[Any, Any]", source)
    elif not isinstance(source, str | PathLike):
        raise ConfigError(f"mcp must be the path of a file or a mapping of servers, not {kind_of(source)}")
    else:
        path = _path(source)
        where, folder, document = str(path), folder or _workspace(path), read_document(path, notes)
    found = find_servers(document, where)
    if not found.servers:
        notes.append(Note(f"{where}: it holds no server"))
    notes += beside_notes(where, found.beside)
    values = Values(folder, found.inputs)
    servers: list[ServerConfig] = []
    for name, entry in found.servers.items():
        if isinstance(source, str | PathLike):
            entry = with_variables(entry, Path(source), f"{where}: server {name!r}")
        servers.append(
            _server(name, as_ours(entry), values, where, notes, off=name in found.off, beside=found.beside)
        )
    return McpConfig(tuple(servers), tuple(notes))


def mcp_report(configs: Iterable[ServerConfig]) -> tuple[str, ...]:
    """What of these servers and their files is not carried over, one line each; no value is shown.

    `file: server 'x': key 'dev' is not carried over: why`. Keys beside the servers come last.
    """
    servers, documents = list[str](), dict[str, None]()
    for config in configs:
        servers += [server_line(config.source, config.name, key) for key in config.ignored]
        documents |= dict.fromkeys(note.text for note in beside_notes(config.source, config.beside))
    return (*servers, *documents)


def _path(source: str | PathLike[str]) -> Path:
    try:
        return Path(source).expanduser()
    except RuntimeError as error:  # the home of nobody
        raise ConfigError(f"MCP config {str(source)!r} cannot be read: {error}") from error


def _workspace(path: Path) -> Path | None:
    """The project that a file of a host belongs to; None for one that belongs to a user, or to nobody."""
    folder = path.absolute().parent
    belongs = folder.name in HOST_FOLDERS and folder.parent != Path.home()
    return folder.parent if belongs else None


def _server(
    name: str,
    data: Mapping[Any, Any],
    values: Values,
    where: str,
    notes: list[Note],
    *,
    off: bool,
    beside: tuple[str, ...],
) -> ServerConfig:
    entry = Entry(f"{where}: server {name!r}", data, notes)
    enabled = entry.flag("enabled", True) and not entry.flag("disabled", False) and not off
    protocol = entry.text("protocol") or "auto"
    if protocol not in PROTOCOLS:
        raise ConfigError(
            f"{entry.place}: protocol {protocol!r}; allowed are 'auto', 'handshake' and 'stateless'"
        )
    if not (enabled or entry.has("command") or entry.has("url")):  # only switched off, as opencode allows
        return ServerConfig(
            name=name, enabled=False, ignored=tuple(entry.ignored), source=where, beside=beside
        )
    tools = NameFilter.of(entry.any("tools"), f"{entry.place}, tools")
    timeout, transport = _timeout(entry), _transport(entry)
    entry.ignore({"stdio": HTTP_KEYS, "http": STDIO_KEYS}.get(transport, ()))
    notes += [key_note(where, name, key, matters=enabled and entry.matters(key)) for key in entry.ignored]
    common: dict[str, Any] = {
        "name": name,
        "enabled": enabled,
        "timeout": timeout,
        "protocol": protocol,
        "tools": tools,
        "ignored": tuple(entry.ignored),
        "source": where,
        "beside": beside,
    }
    if not enabled:  # its variables need not be set
        return ServerConfig(**common)
    if transport in UNSUPPORTED:
        return ServerConfig(**common, problem=UNSUPPORTED[transport])
    found = values.reader(entry.place)
    specific = _stdio(entry, values, found) if transport == "stdio" else _http(entry, found)
    return ServerConfig(
        **common,
        **specific,
        secrets=tuple(dict.fromkeys(found.secrets)),
        secret_names=tuple(dict.fromkeys(found.names)),
    )


def _timeout(entry: Entry) -> float:
    """Seconds."""
    timeout = entry.of((int, float), "timeout", "a number of milliseconds")
    if timeout is None:
        return 30.0
    if not timeout > 0:
        raise ConfigError(f"{entry.place}: timeout {timeout!r} must be more than 0 milliseconds")
    if timeout > MAX_TIMEOUT:
        raise ConfigError(f"{entry.place}: 'timeout' is in milliseconds, at most {MAX_TIMEOUT} (a day)")
    if timeout < _SHORT_TIMEOUT:
        entry.note(f"timeout {timeout!r} is in milliseconds: was it meant in seconds?")
    return float(timeout) / 1000


def _transport(entry: Entry) -> str:
    """`stdio`, `http` or one that is not supported, from what is given."""
    command, url = entry.has("command"), entry.has("url")
    declared = entry.text("type")
    if declared in UNSUPPORTED:
        return declared
    if declared is not None and declared not in _STDIO + _HTTP:
        allowed = ", ".join(map(repr, ("stdio", "http")))
        near = did_you_mean(declared, _STDIO + _HTTP)
        raise ConfigError(f"{entry.place}: type {declared!r}; allowed are {allowed}{near}")
    if declared is None and command and url:
        raise ConfigError(f"{entry.place}: it has both 'command' and 'url'; keep one, or give a 'type'")
    transport = "http" if declared in _HTTP or (declared is None and url) else "stdio"
    needed = "url" if transport == "http" else "command"
    if not (url if transport == "http" else command):
        raise ConfigError(f"{entry.place}: {needed!r} is missing; a server has a 'command' or a 'url'")
    return transport


def _stdio(entry: Entry, values: Values, found: Reader) -> dict[str, Any]:
    command = entry.any("command")
    words = [command] if isinstance(command, str) else entry.texts("command")
    words = [found.fill(word, "command") for word in words]
    words += [found.fill(word, "args") for word in entry.texts("args")]
    if not words or not words[0].strip():
        raise ConfigError(f"{entry.place}: 'command' is empty")
    env = entry.table("environment") | entry.table("env")
    cwd = entry.text("cwd")
    if (env_file := entry.text("envFile")) is not None:
        path = values.workspace / Path(found.fill(env_file, "envFile")).expanduser()
        from_file = read_env_file(path, entry.place)
        for value in from_file.values():
            found.note(value)
        env = from_file | env
    env = found.fill_table(env, "env")
    words = _without_windows_shell(words, entry)
    return {
        "command": tuple(words),
        "env": MappingProxyType(env),
        "cwd": values.folder(None if cwd is None else found.fill(cwd, "cwd")),
        "problem": _no_program(words[0], env.get("PATH")),
    }


def _without_windows_shell(words: list[str], entry: Entry) -> list[str]:
    """A command without the `cmd /c` that files from Windows have before `npx`, on any other system."""
    shell = len(words) > 2 and words[0].lower() in ("cmd", "cmd.exe") and words[1].lower() == "/c"
    if os.name == "nt" or not shell:
        return words
    entry.note("'cmd /c' is left out on this system", serious=False)
    return words[2:]


def _no_program(program: str, path: str | None) -> str | None:
    """What is wrong with a program that has spaces in its name and does not exist."""
    relative = os.path.dirname(program) and not os.path.isabs(program)
    if len(program.split()) < 2 or relative:
        return None
    import shutil

    if shutil.which(program, path=path):
        return None
    return (
        "'command' has spaces, and there is no program of this name; put the program alone into 'command' "
        "and each word behind it into 'args'"
    )


def _http(entry: Entry, found: Reader) -> dict[str, Any]:
    url = found.fill_url(entry.text("url") or "")
    headers = MappingProxyType(found.fill_table(entry.table("headers"), "headers"))
    for name, value in headers.items():
        if not (name + value).isprintable():  # libraries show the value in their complaint
            raise ConfigError(
                f"{entry.place}: {f'headers.{name}'!r} holds a line break or a control character"
            )
    scheme, host = urlsplit(url)[:2]
    if scheme in _UNSUPPORTED_SCHEMES:
        problem = f"addresses with {scheme}: are not supported; use one with http: or https:"
        return {"url": url, "headers": headers, "problem": problem}
    if scheme not in ("http", "https") or not host:
        raise ConfigError(f"{entry.place}: 'url' must begin with http:// or https:// and name a host")
    return {"url": url, "headers": headers}
