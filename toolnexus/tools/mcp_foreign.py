"""Keys of other hosts that say what keys of ours say, rewritten as those.

A key of ours that is there, too, wins: then the other one stays, and is told as not carried over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard, cast

from toolnexus.errors import ConfigError
from toolnexus.tools.filters import Expected

_ONLY = ("includeTools", "enabledTools", "enabled_tools")
_NOT = ("excludeTools", "disabledTools", "disabled_tools")
_ADDRESS = ("httpUrl", "serverUrl")
_SECONDS = ("startup_timeout_sec", "tool_timeout_sec")
_HEADERS = ("http_headers", "env_http_headers", "bearer_token_env_var")

_OPENCODE = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_OPENCODE_FILE = re.compile(r"\{file:[^}]*\}")
_GEMINI = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")

Table = Mapping[Any, Any]


def as_ours(server: Table) -> Table:
    """`server` with our keys in place of those that mean the same. What has another shape stays as it is."""
    out = dict(server)
    _rename(out)
    if out.get("tools") is None:
        _tools(out)
    if out.get("timeout") is None:
        _timeout(out)
    if out.get("headers") is None:
        _headers(out)
    names = out.get("env_vars")
    if _are_texts(names) and out.get("env") is None:
        del out["env_vars"]
        out["env"] = {name: f"${{{name}:-}}" for name in names}
    return out


def _rename(out: dict[Any, Any]) -> None:
    """The address: of several, the one that is named after its transport."""
    for key in _ADDRESS:
        if isinstance(out.get(key), str) and (out.get("url") is None or key == "httpUrl"):
            out["url"] = out.pop(key)
            out.pop("type", None)


def _tools(out: dict[Any, Any]) -> None:
    """A name that the server does not have is a warning, as in a file that is shared over versions."""
    only = [key for key in _ONLY if _are_texts(out.get(key))]
    without = {name for key in _NOT if _are_texts(out.get(key)) for name in out.pop(key)}
    if only:
        named = [name for key in only for name in out.pop(key)]
        out["tools"] = [Expected(name) for name in named if name not in without]
    elif without:
        out["tools"] = {Expected(name): False for name in sorted(without)}


def _timeout(out: dict[Any, Any]) -> None:
    """One bound for connecting and calls: the longer of two, in milliseconds."""
    given = [key for key in _SECONDS if isinstance(out.get(key), (int, float))]
    if given:
        out["timeout"] = 1000 * max([out.pop(key) for key in given])


def _headers(out: dict[Any, Any]) -> None:
    headers: dict[Any, Any] = {}
    for key in _HEADERS:
        value = out.get(key)
        if key == "bearer_token_env_var" and isinstance(value, str) and value:
            headers["Authorization"] = f"Bearer ${{{value}}}"
        elif key != "bearer_token_env_var" and isinstance(value, Mapping):
            table = cast("Table", value)
            headers |= {n: f"${{{v}}}" if key == "env_http_headers" else v for n, v in table.items()}
        else:
            continue
        del out[key]
    if headers:
        out["headers"] = headers


def with_variables(server: Table, path: Path, place: str) -> Table:
    """`server` of the file at `path`, with the way in which its host writes variables as ours.

    Raises `ConfigError` for a value that is to be read from another file.
    """
    if path.name in ("opencode.json", "opencode.jsonc"):
        if any(_OPENCODE_FILE.search(text) for text in _texts(server)):
            raise ConfigError(f"{place}: no value is read from a file; write it as {{env:NAME}}")
        return _rewritten(server, _OPENCODE)
    if path.parent.name == ".gemini":
        return _rewritten(server, _GEMINI)
    return server


def _rewritten(value: Any, variable: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return variable.sub(r"${\1}", value)
    if isinstance(value, list):
        return [_rewritten(item, variable) for item in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {key: _rewritten(item, variable) for key, item in cast("Table", value).items()}
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast("Table", value).values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _texts(item)


def _are_texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))
