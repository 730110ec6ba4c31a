"""Configuration of MCP servers: the files that other hosts have, and mappings of the same shape."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import urlsplit

from toolnexus.errors import ConfigError
from toolnexus.protocols.mcp.endpoint import Endpoint
from toolnexus.tools.filters import NameFilter
from toolnexus.tools.mcp_entry import Entry, kind_of
from toolnexus.tools.mcp_values import Reader, Values, read_env_file

logger = logging.getLogger("toolnexus.mcp")

WRAPPERS = ("mcpServers", "servers", "mcp")
RESERVED = frozenset(
    "$schema a2a agents allowed_models base_url budget builtins headers inputs limits max_turns mcpServer"
    " model name permissions resources runtime skills store systemPrompt system_prompt tools version"
    " workdir".split()
)
"""Siblings of servers in a document without a wrapper: never servers."""

_STDIO = ("stdio", "local")
_HTTP = ("http", "streamable-http", "streamableHttp", "streamable_http", "remote")
_NO_SSE = "the SSE transport is not supported; use the server's streamable HTTP address with type 'http'"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig(Endpoint):
    """One configured MCP server. `repr` shows no argument, value or address beyond the host."""

    enabled: bool = True
    tools: NameFilter = field(default=NameFilter(), repr=False)
    """Which tools are offered, by original names."""
    problem: str | None = None
    """Why it cannot connect, where that is known already."""
    secret_names: tuple[str, ...] = ()
    """The environment variables of ours that its secrets came from."""


def load_mcp_config(source: str | Path | Mapping[str, Any]) -> tuple[ServerConfig, ...]:
    """The servers of a JSON or TOML file, or of a mapping of the same shape, in their order.

    The servers stand under `mcpServers`, `servers` or `mcp`, or are the document itself.
    `${NAME}`, `${env:NAME}` and `${NAME:-default}` are expanded in commands, values and addresses
    of enabled servers; `${input:id}` is read from the variable `ID`. Comments and trailing commas
    in JSON are accepted, and keys of other hosts are passed over.

    Raises `ConfigError` that names the file, the server and the key.
    """
    if isinstance(source, Mapping):
        where, workspace, document = "mcp", Path.cwd(), cast("Mapping[Any, Any]", source)
    elif not isinstance(source, str | Path):
        raise ConfigError(f"mcp must be the path of a file or a mapping of servers, not {kind_of(source)}")
    else:
        path = Path(source).expanduser()
        where, workspace, document = str(path), _workspace(path), _read(path)
    values = Values(workspace, _sequence(document.get("inputs")))
    servers = _servers(document, where)
    if not servers:
        logger.warning("%s: it holds no server", where)
    return tuple([_server(name, entry, values, where) for name, entry in servers.items()])


def _workspace(path: Path) -> Path:
    folder = path.absolute().parent
    return folder.parent if folder.name in (".vscode", ".cursor") else Path.cwd()


def _read(path: Path) -> Mapping[Any, Any]:
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"MCP config {str(path)!r} cannot be read: {error}") from error
    try:
        if path.suffix == ".toml":
            import tomli

            document: Any = tomli.loads(text)
        else:
            document = json.loads(_plain_json(text))
    except RecursionError:
        raise ConfigError(f"MCP config {str(path)!r} does not parse: it is nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"MCP config {str(path)!r} does not parse: {error}") from error
    if not isinstance(document, Mapping):
        raise ConfigError(f"MCP config {str(path)!r} must hold an object, not {type(document).__name__}")
    return cast("Mapping[Any, Any]", document)


_JSON_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.S)


def _plain_json(text: str) -> str:
    """JSON with the comments and trailing commas of VS Code blanked out; positions stay true."""
    for _ in range(2):  # a comma may trail only once the comment behind it is gone
        text = _JSON_TOKEN.sub(_blank, text)
    return text


def _blank(match: re.Match[str]) -> str:
    token = match[0]
    return token if token[0] == '"' else re.sub(r"[^\n]", " ", token)


def _servers(document: Mapping[Any, Any], where: str) -> dict[str, Mapping[Any, Any]]:
    entries: Any = document
    for key in WRAPPERS:
        if key in document and not _looks_like_server(document[key]):
            entries = document[key]
            if key == "mcp" and isinstance(entries, Mapping):  # VS Code settings: mcp.servers
                inner = cast("Mapping[Any, Any]", entries).get("servers")
                if isinstance(inner, Mapping) and not _looks_like_server(inner):
                    entries = cast("Any", inner)
            break
    else:
        entries = {k: v for k, v in document.items() if k not in RESERVED}
        _check_wrapper(document, entries, where)
    if not isinstance(entries, Mapping):
        raise ConfigError(f"{where}: the servers must be an object of name to server, not {kind_of(entries)}")
    servers: dict[str, Mapping[Any, Any]] = {}
    for name, entry in cast("Mapping[Any, Any]", entries).items():
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{where}: {name!r} is no name of a server")
        if not isinstance(entry, Mapping):
            raise ConfigError(
                f"{where}: server {name!r} must be an object with a command or a url, not {kind_of(entry)}"
            )
        servers[name] = cast("Mapping[Any, Any]", entry)
    return servers


def _check_wrapper(document: Mapping[Any, Any], entries: Mapping[Any, Any], where: str) -> None:
    """Raises `ConfigError` for a misspelt wrapper. `mcpServer` beside servers is somebody's own key."""
    for key in document if not entries else entries:
        value = document[key]
        misspelt = isinstance(key, str) and re.sub(r"[-_]", "", key).lower() in ("mcpserver", "mcpservers")
        if misspelt and isinstance(value, Mapping) and not _looks_like_server(value):
            raise ConfigError(f"{where}: unknown key {key!r}; did you mean 'mcpServers'?")


def _looks_like_server(value: Any) -> bool:
    return isinstance(value, Mapping) and any(
        isinstance(cast("Mapping[Any, Any]", value).get(key), str | list) for key in ("command", "url")
    )


def _server(name: str, data: Mapping[Any, Any], values: Values, where: str) -> ServerConfig:
    entry = Entry(f"{where}: server {name!r}", data)
    enabled = entry.flag("enabled", True) and not entry.flag("disabled", False)
    protocol = entry.text("protocol") or "auto"
    if protocol not in ("auto", "handshake", "stateless"):
        raise ConfigError(
            f"{entry.place}: protocol {protocol!r}; allowed are 'auto', 'handshake' and 'stateless'"
        )
    timeout = entry.of((int, float), "timeout", "a number of milliseconds")
    if timeout is not None and not timeout > 0:
        raise ConfigError(f"{entry.place}: timeout {timeout!r} must be more than 0 milliseconds")
    transport = _transport(entry)
    common: dict[str, Any] = {
        "name": name,
        "enabled": enabled,
        "timeout": 30.0 if timeout is None else timeout / 1000,
        "protocol": protocol,
        "tools": NameFilter.of(entry.any("tools"), f"{entry.place}, tools"),
    }
    if not enabled:  # its variables need not be set
        return ServerConfig(**common)
    if transport == "sse":
        return ServerConfig(**common, problem=_NO_SSE)
    found = values.reader(entry.place)
    specific = _stdio(entry, values, found) if transport == "stdio" else _http(entry, found)
    return ServerConfig(
        **common,
        **specific,
        secrets=tuple(dict.fromkeys(found.secrets)),
        secret_names=tuple(dict.fromkeys(found.names)),
    )


def _transport(entry: Entry) -> str:
    """`stdio`, `http` or `sse`, from what is given."""
    command, url = entry.has("command"), entry.has("url")
    declared = entry.text("type")
    if declared == "sse":
        return "sse"
    if declared is not None and declared not in _STDIO + _HTTP:
        allowed = ", ".join(map(repr, ("stdio", "http")))
        raise ConfigError(f"{entry.place}: type {declared!r}; allowed are {allowed}")
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
    words += entry.texts("args")
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
    return {
        "command": tuple([found.fill(word, "command") for word in words]),
        "env": MappingProxyType(found.fill_table(env, "env")),
        "cwd": None if cwd is None else str(Path(found.fill(cwd, "cwd")).expanduser()),
    }


def _http(entry: Entry, found: Reader) -> dict[str, Any]:
    url = found.fill_url(entry.text("url") or "")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise ConfigError(f"{entry.place}: 'url' must begin with http:// or https:// and name a host")
    return {"url": url, "headers": MappingProxyType(found.fill_table(entry.table("headers"), "headers"))}


def _sequence(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
