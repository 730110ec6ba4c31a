"""MCP servers of a document: checked one by one, with folders that do not depend on who starts them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from toolnexus.config.values import Filler, Secret
from toolnexus.errors import ConfigError, UnsetVariable
from toolnexus.tools.mcp_config import mcp_report, read_mcp_config


def read_servers(
    servers: Mapping[str, Mapping[str, Any]], filler: Filler, report: list[str]
) -> dict[str, Any]:
    """The servers under `mcpServers`, for a client."""
    placed = {name: _placed(server, f"mcpServers.{name}", filler) for name, server in servers.items()}
    for name, server in placed.items():
        place = f"mcpServers.{name}"
        _check({"mcpServers": {name: server}}, place, f"mcp: server {name!r}: ", filler, report)
    return {"mcpServers": placed}


def read_mcp(
    value: str | Mapping[str, Any], filler: Filler, report: list[str]
) -> Path | dict[str, Any] | None:
    """What stands under `mcp`: the file of another host, or what it holds."""
    if isinstance(value, str):
        path = filler.path(value, "mcp", "mcp")
        if path is not None and not os.path.isfile(path):
            filler.lacks("mcp", "mcp", f"there is no file {str(path)!r}")
        elif path is not None:
            _check(path, "mcp", "", filler, report)
        return path
    placed = _placed(value, "mcp", filler)
    _check(placed, "mcp", "mcp: ", filler, report)
    return placed


def _placed(table: Mapping[str, Any], place: str, filler: Filler) -> dict[str, Any]:
    """A copy in which every program that starts as a server runs in a folder that is known."""
    if not any(isinstance(table.get(key), (str, list)) for key in ("command", "url")):
        return {
            key: _placed(cast("Mapping[str, Any]", value), f"{place}.{key}", filler)
            if isinstance(value, Mapping)
            else value
            for key, value in table.items()
        }
    out: dict[str, Any] = _unseen(_here(table, str(filler.folder)))
    if "command" not in table or table.get("enabled") is False or table.get("disabled") is True:
        return out
    out.setdefault("cwd", str(filler.folder))
    for key in ("cwd", "envFile"):
        if isinstance(text := out.get(key), str):
            path = filler.path(text, f"{place}.{key}", "mcp")
            out[key] = text if path is None else str(path)
    return out


def _unseen(server: dict[str, Any]) -> dict[str, Any]:
    """The same server, with a repr that shows nothing of what may be secret."""
    for key in ("env", "environment", "headers"):
        if isinstance(table := server.get(key), Mapping):
            values = cast("Mapping[str, Any]", table)
            server[key] = {n: Secret(v) if isinstance(v, str) else v for n, v in values.items()}
    for key in ("args", "command"):
        if isinstance(words := server.get(key), list):
            given = cast("list[Any]", words)
            server[key] = [
                Secret(w) if isinstance(w, str) and n + (key == "args") else w for n, w in enumerate(given)
            ]
    if isinstance(url := server.get("url"), str) and ("?" in url or "@" in url):
        server["url"] = Secret(url)
    return server


def _here(value: Any, folder: str) -> Any:
    """A copy in which the workspace is the folder of the document, not the current one."""
    if isinstance(value, str):
        return value.replace("${workspaceFolder}", folder)
    if isinstance(value, list):
        return [_here(item, folder) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _here(item, folder) for key, item in cast("dict[str, Any]", value).items()}
    return value


def _check(
    config: Path | Mapping[str, Any], place: str, prefix: str, filler: Filler, report: list[str]
) -> None:
    try:
        found = read_mcp_config(config)
    except UnsetVariable as error:
        if not any(line.startswith(f"{place}.") for line in filler.missing.get("mcp", ())):
            filler.lacks("mcp", place, str(error).removeprefix(prefix))
    except ConfigError as error:
        filler.findings.append(f"{place}: {str(error).removeprefix(prefix)}")
    else:
        serious = [note.text for note in found.notes if note.serious]
        lines = dict.fromkeys([*mcp_report(found.servers), *serious])
        report += [f"{place}: {line.removeprefix(prefix)}" for line in lines]
