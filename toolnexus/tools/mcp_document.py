"""A document that holds MCP servers: read from a file, and where in it the servers stand."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, cast

from toolnexus.core.files import read_regular, reason
from toolnexus.core.jsonc import plain_json
from toolnexus.core.strict_json import decode
from toolnexus.core.values import frozen
from toolnexus.errors import ConfigError
from toolnexus.tools.mcp_entry import kind_of
from toolnexus.tools.mcp_hosts import Note, says_nothing

MOST_BYTES = 1 << 25
"""A `~/.claude.json` with the history of many projects has some megabytes."""
WRAPPERS = ("mcpServers", "mcp_servers", "servers", "mcp")
RESERVED = frozenset(
    "$schema a2a agents allowed_models base_url budget builtins headers inputs limits max_turns mcpServer"
    " model name permissions resources runtime skills store systemPrompt system_prompt tools version"
    " workdir".split()
)
"""Siblings of servers in a document without a wrapper: never servers."""

Document = Mapping[Any, Any]


@frozen()
class Found:
    """What a document says about servers."""

    servers: Mapping[str, Document]
    inputs: Sequence[Any] = ()
    """The questions of a VS Code file."""
    off: frozenset[str] = frozenset()
    """Servers that the document switches off elsewhere."""
    beside: tuple[str, ...] = ()
    """Keys that are neither servers nor ours."""


def read_document(path: Path, notes: list[Note]) -> Document:
    """The object that a JSON or TOML file holds; what is odd goes to `notes`.

    Raises `ConfigError` with its path.
    """
    try:
        data = read_regular(path, MOST_BYTES)
        text = data.decode("utf-8-sig" if path.suffix == ".toml" else json.detect_encoding(data))
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else error
        raise ConfigError(f"MCP config {str(path)!r} cannot be read: {why}") from error
    try:
        if path.suffix == ".toml":
            import tomli

            document: Any = tomli.loads(text)
        else:
            document = _from_json(text, path, notes)
    except RecursionError:
        raise ConfigError(f"MCP config {str(path)!r} does not parse: it is nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"MCP config {str(path)!r} does not parse: {error}") from error
    if not isinstance(document, Mapping):
        raise ConfigError(f"MCP config {str(path)!r} must hold an object, not {type(document).__name__}")
    return cast("Document", document)


def _from_json(text: str, path: Path, notes: list[Note]) -> Any:
    plain = plain_json(text.removeprefix("\ufeff"))
    if not plain.strip():
        raise ValueError('the file is empty; an object is wanted, such as {"mcpServers": {}}')

    def no_pair_lost(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) < len(pairs):
            for key in [k for k, times in Counter(k for k, _ in pairs).items() if times > 1]:
                notes.append(Note(f"{path}: key {key!r} stands there more than once; the last one counts"))
        return out

    return decode(plain, pairs=no_pair_lost)


def find_servers(document: Document, where: str) -> Found:
    """The servers of a document, under a wrapper or by themselves. Raises `ConfigError`."""
    inputs = list(_sequence(document.get("inputs")))
    beside = [key for key in document if key not in RESERVED and isinstance(key, str)]
    projects = _projects(document)
    wrapper = next((k for k in WRAPPERS if k in document and not looks_like_server(document[k])), None)
    if wrapper is None and projects is None:
        entries: Any = {k: v for k, v in document.items() if k not in RESERVED}
        _check_wrapper(document, entries, where)
        return Found(_checked(entries, where, bare=True), inputs)
    entries = {} if wrapper is None else document[wrapper]
    if wrapper == "mcp" and isinstance(entries, Mapping):  # the settings of VS Code: mcp.servers
        settings = cast("Document", entries)
        if isinstance(settings.get("inputs"), list | tuple) or _is_table(settings.get("servers")):
            inputs += _sequence(settings.get("inputs"))
            entries = settings.get("servers") or {}
    found = _checked(entries, where)
    beside = [k for k in beside if k != wrapper and not (k in WRAPPERS and says_nothing(document[k]))]
    if projects is None:
        off = _off_in_settings(document, found) if wrapper == "mcpServers" else frozenset[str]()
        return Found(found, inputs, off, tuple([k for k in beside if not (k == "mcp" and off)]))
    local, off, others = _of_working_folder(projects, where)
    if not others:
        beside.remove("projects")
    return Found({**found, **local}, inputs, off, tuple(beside))


def _off_in_settings(document: Document, servers: Mapping[str, Document]) -> frozenset[str]:
    """The servers that the settings of Gemini CLI leave out: `mcp.allowed`, `mcp.excluded`."""
    settings = document.get("mcp")
    if not _is_table(settings):
        return frozenset()
    off = {name for name in _sequence(settings.get("excluded")) if isinstance(name, str)}
    if isinstance(allowed := settings.get("allowed"), list):
        off |= {name for name in servers if name not in allowed}
    return frozenset(off)


def _projects(document: Document) -> Document | None:
    """The `projects` of a `~/.claude.json`: servers by folder."""
    projects = document.get("projects")
    if not _is_table(projects):
        return None
    holds_servers = any(_is_table(p) and _is_table(p.get("mcpServers")) for p in projects.values())
    return projects if holds_servers or "mcpServers" in document else None


def _of_working_folder(projects: Document, where: str) -> tuple[dict[str, Document], frozenset[str], bool]:
    """The servers of the project that holds the working folder, the names that it switches off, and
    whether other projects have servers too."""
    here = Path.cwd()
    folders = {os.path.normpath(key): key for key in projects if isinstance(key, str)}
    mine = next((folders[str(p)] for p in (here, *here.parents) if str(p) in folders), None)
    others = any(
        key != mine and _is_table(p) and not says_nothing(p.get("mcpServers")) for key, p in projects.items()
    )
    project = projects[mine] if mine is not None else None
    if not _is_table(project):
        return {}, frozenset(), others
    servers = _checked(project.get("mcpServers") or {}, where)
    off = [name for name in _sequence(project.get("disabledMcpServers")) if isinstance(name, str)]
    return servers, frozenset(off), others


def _checked(entries: Any, where: str, *, bare: bool = False) -> dict[str, Document]:
    if not isinstance(entries, Mapping):
        raise ConfigError(f"{where}: the servers must be an object of name to server, not {kind_of(entries)}")
    servers: dict[str, Document] = {}
    for name, entry in cast("Document", entries).items():
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{where}: {name!r} is no name of a server")
        if not isinstance(entry, Mapping):
            place = "; servers stand under 'mcpServers', 'servers' or 'mcp'" if bare else ""
            raise ConfigError(
                f"{where}: server {name!r} must be an object with a command or a url, "
                f"not {kind_of(entry)}{place}"
            )
        servers[name] = cast("Document", entry)
    return servers


def _check_wrapper(document: Document, entries: Document, where: str) -> None:
    """Raises `ConfigError` for a misspelt wrapper. `mcpServer` beside servers is somebody's own key."""
    for key in document if not entries else entries:
        value = document[key]
        misspelt = isinstance(key, str) and re.sub(r"[-_]", "", key).lower() in ("mcpserver", "mcpservers")
        if misspelt and isinstance(value, Mapping) and not looks_like_server(value):
            raise ConfigError(f"{where}: unknown key {key!r}; did you mean 'mcpServers'?")


def looks_like_server(value: Any) -> bool:
    return _is_table(value) and any(isinstance(value.get(key), str | list) for key in ("command", "url"))


def _is_table(value: Any) -> TypeGuard[Document]:
    return isinstance(value, Mapping)


def _sequence(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
