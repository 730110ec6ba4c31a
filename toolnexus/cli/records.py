"""What `run --record` writes beside the run itself, and what `replay` makes of it."""

from __future__ import annotations

import hashlib
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from toolnexus.cli.build import Change
from toolnexus.cli.exits import UsageError
from toolnexus.cli.view.words import printable
from toolnexus.core.messages import MediaPart, Message
from toolnexus.core.tools import Tool
from toolnexus.core.wire import message_from_json, message_to_json
from toolnexus.engine.agent import as_messages
from toolnexus.errors import ToolError
from toolnexus.models.records.file import Record
from toolnexus.models.records.recording import RecordingModel
from toolnexus.models.registry import resolve
from toolnexus.protocols.mcp.endpoint import ListedTool
from toolnexus.tools.mcp import McpSource, McpTool
from toolnexus.tools.mcp_config import ServerConfig

_KEPT = (
    "config",
    "project",
    "mcp",
    "skills",
    "agents",
    "agent_model",
    "builtins",
    "no_builtins",
    "workdir",
    "system",
    "max_turns",
    "conversation",
    *("allow", "ask", "deny"),
)
_UNLESS: dict[str, Any] = {"no_builtins": False, "agent_model": [], "openapi": []}
_FILES = ("config", "mcp")
_ENDPOINT = ("base_url", "api_key", "headers")


def recorder(options: Namespace, prompt: Sequence[str | MediaPart]) -> Change:
    """Puts a recording model in the place of a client's model; what was asked goes into its first line."""
    message = message_to_json(as_messages(prompt)[0])
    given = {name: getattr(options, name) for name in _KEPT if getattr(options, name)}
    digests = {path: _digest(path) for path in _files(given)}
    about = {"run": {"prompt": message["parts"], "options": given, "files": digests}}

    def recorded(chosen: dict[str, Any]) -> dict[str, Any]:
        endpoint = {name: chosen.get(name) for name in _ENDPOINT}
        rest = {name: value for name, value in chosen.items() if name not in endpoint}
        model = RecordingModel(resolve(chosen["model"], **endpoint), options.record, about=about)
        return {**rest, "model": model, "hooks": [model.tools]}

    return recorded


def recorded_run(record: Record) -> tuple[Namespace, list[Message]]:
    """The options of the command that was recorded, and what it asked, a conversation's past included.

    Says on stderr which of its files have changed since. Raises `UsageError` for what is missing.
    """
    run: Any = record.header.get("run")
    if not isinstance(run, dict):
        raise UsageError(
            f"{record.where!r} holds no command: it was not written by `toolnexus run --record`. Play it "
            f"in its own program, with Client(model=ReplayingModel({record.where!r}))"
        )
    try:
        header = cast("dict[str, Any]", run)
        given: dict[str, Any] = {**dict.fromkeys(_KEPT), **_UNLESS, **header["options"]}
        asked = message_from_json({"v": 1, "role": "user", "parts": header["prompt"]})
        files: dict[str, str] = {**header["files"]}
    except (LookupError, TypeError, ValueError) as error:
        raise UsageError(f"{record.where!r}: its first line is not understood: {error}") from error
    for path, digest in files.items():
        now = _digest(path)
        if now is None:
            raise UsageError(f"the run used {path!r}, which is not here: replay it where it was run")
        if now != digest:
            print(printable(f"note: {path} has changed since the run was recorded"), file=sys.stderr)
    past = _past(record) if given["conversation"] else []
    return Namespace(**given), [*past, asked]


def recorded_servers(record: Record) -> list[McpSource]:
    """The MCP servers whose tools were offered, as sources that connect to nothing."""
    servers: dict[str, list[Mapping[str, Any]]] = {}
    for form in record.tools:
        if form["source"] == "mcp":
            servers.setdefault(form["origin"], []).append(form)
    return [RecordedServer(name, forms) for name, forms in servers.items()]


def recorded_http_tools(record: Record) -> list[Tool]:
    """The HTTP tools that were offered, as tools that send nothing: what they give is in the record."""

    async def unsent(arguments: dict[str, Any], ctx: Any) -> str:
        raise ToolError("a replay sends nothing")

    return [
        Tool(form["name"], form["description"], form["schema"], unsent, source="http")
        for form in {form["name"]: form for form in record.tools if form["source"] == "http"}.values()
    ]


class RecordedServer(McpSource):
    """A server as a record knows it: its tools are offered; what they give is in the record, too."""

    def __init__(self, name: str, forms: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(ServerConfig(name=name))
        self._forms = forms

    @property
    def status(self) -> dict[str, str | None]:
        return {"status": "connected", "reason": None}

    async def open(self, on_change: Callable[[], None]) -> None:
        """List the recorded tools under the names that they were offered by."""
        forms = {form["original_name"]: form for form in self._forms}  # the last one, if it changed
        self._tools = tuple(
            [
                McpTool(form["name"], ListedTool(original, form["description"], form["schema"]), self)
                for original, form in sorted(forms.items())
            ]
        )

    async def aclose(self) -> None:
        """Nothing to close."""


def _past(record: Record) -> list[Message]:
    """What the conversation held before, as its first request has it."""
    first = next((e for e in record.exchanges if len(e.path) == 1 and e.turn == 1), None)
    views: list[Any] = [] if first is None else first.view["messages"][:-1]
    try:
        return [message_from_json({"v": 1, **view}) for view in views]
    except (TypeError, ValueError):  # media are there by digest alone
        raise UsageError(
            f"{record.where!r} goes on with a conversation that holds media, which are not in the record"
        ) from None


def _files(given: Mapping[str, Any]) -> list[str]:
    return [given[name] for name in _FILES if name in given]


def _digest(path: str) -> str | None:
    if not os.path.isfile(path):
        return None
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
