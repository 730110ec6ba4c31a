"""MCP servers of a document: checked one by one, with folders that do not depend on who starts them."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from toolnexus.config.values import UNSET, Filler
from toolnexus.errors import ConfigError
from toolnexus.tools.mcp_config import load_mcp_config, mcp_report


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
    out: dict[str, Any] = _here(table, str(filler.folder))
    if "command" not in table or table.get("enabled") is False or table.get("disabled") is True:
        return out
    out.setdefault("cwd", str(filler.folder))
    for key in ("cwd", "envFile"):
        if isinstance(text := out.get(key), str):
            path = filler.path(text, f"{place}.{key}", "mcp")
            out[key] = text if path is None else str(path)
    return out


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
        with _silent():
            configs = load_mcp_config(config)
    except ConfigError as error:
        text = str(error).removeprefix(prefix)
        if UNSET not in text:
            filler.findings.append(f"{place}: {text}")
        elif not any(line.startswith(f"{place}.") for line in filler.missing.get("mcp", ())):
            filler.lacks("mcp", place, text)
    else:
        report += [f"{place}: {line.removeprefix(prefix)}" for line in mcp_report(configs)]


class _OtherThreads(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread


@contextmanager
def _silent() -> Generator[None]:
    """Without warnings: the client gives them once it really takes the configuration."""
    logger, quiet = logging.getLogger("toolnexus.mcp"), _OtherThreads()
    logger.addFilter(quiet)
    try:
        yield
    finally:
        logger.removeFilter(quiet)
