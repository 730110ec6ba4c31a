"""An MCP server over stdio that lists and reads the text files of one folder.

`python server.py FOLDER`. The standard library only: the official server package takes a second to
start, and a demo should not wait for that. It speaks the handshake era of the protocol.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
LARGEST = 1 << 20

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602

TOOLS: list[dict[str, Any]] = [
    {
        "name": "list",
        "description": "The paths of all text files of the program, one a line.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    },
    {
        "name": "read",
        "description": "One file of the program, every line with its number.",
        "inputSchema": {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "A path as `list` gives it."}},
            "required": ["path"],
            "additionalProperties": False,
        },
    },
]


class Refused(Exception):
    """A request that gets a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def serve(folder: str, requests: TextIO, replies: TextIO) -> None:
    """Answer one message a line until end of file."""
    for line in requests:
        reply = answer(folder, line)
        if reply is not None:
            replies.write(json.dumps(reply) + "\n")
            replies.flush()


def answer(folder: str, line: str) -> dict[str, Any] | None:
    """The reply to one message; None for what takes no reply."""
    id: Any = None
    try:
        message = parsed(line)
        if "id" not in message or "method" not in message:
            return None  # a notification, or a reply to what we never asked
        id = message["id"]
        given = result(folder, str(message["method"]), message.get("params") or {})
        return {"jsonrpc": "2.0", "id": id, "result": given}
    except Refused as refused:
        return {"jsonrpc": "2.0", "id": id, "error": {"code": refused.code, "message": str(refused)}}


def parsed(line: str) -> dict[str, Any]:
    """The message in a line. Raises `Refused`."""
    try:
        message = json.loads(line)
    except ValueError as error:
        raise Refused(PARSE_ERROR, f"not JSON: {error}") from error
    if not isinstance(message, dict) or cast("dict[str, Any]", message).get("jsonrpc") != "2.0":
        raise Refused(INVALID_REQUEST, "not a JSON-RPC 2.0 message")
    return cast("dict[str, Any]", message)


def result(folder: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What a request gives. Raises `Refused`."""
    if method == "initialize":
        wanted = params.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "files", "version": "1"},
            "instructions": f"The files of one program, served by process {os.getpid()}.",
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method != "tools/call":
        raise Refused(METHOD_NOT_FOUND, f"there is no method {method!r}")
    name = params.get("name")
    arguments: dict[str, Any] = params.get("arguments") or {}
    if name not in [tool["name"] for tool in TOOLS]:
        raise Refused(INVALID_PARAMS, f"there is no tool {name!r}")
    try:
        text = listing(folder) if name == "list" else numbered(folder, arguments.get("path"))
    except (OSError, ValueError) as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {"content": [{"type": "text", "text": text}], "isError": False}


def listing(folder: str) -> str:
    """Who serves what, and the paths."""
    paths = sorted(paths_below(folder))
    return "\n".join([f"process {os.getpid()} serves {len(paths)} files", *paths])


def paths_below(folder: str) -> Iterator[str]:
    """Every file that is not hidden, relative to `folder`, with slashes."""
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        for name in files:
            if not name.startswith("."):
                yield os.path.relpath(os.path.join(here, name), folder).replace(os.sep, "/")


def numbered(folder: str, path: object) -> str:
    """The lines of a file as `N: text`. Raises `ValueError` for a path outside, `OSError`."""
    root = os.path.realpath(folder)
    place = os.path.realpath(os.path.join(root, str(path)))
    if not place.startswith(root + os.sep):
        raise ValueError(f"{path!r} lies outside of the program")
    with open(place, encoding="utf-8", errors="replace") as file:
        text = file.read(LARGEST)
    return "\n".join([f"{number}: {line}" for number, line in enumerate(text.splitlines(), 1)])


if __name__ == "__main__":
    sys.stdin.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    serve(sys.argv[1], sys.stdin, sys.stdout)
