"""What editors are told about one MCP server. `tools.mcp_config` is who reads it."""

from __future__ import annotations

from typing import Any

from toolnexus.tools.mcp_config import MAX_TIMEOUT, PROTOCOLS, TYPES, UNSUPPORTED

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_VALUES = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}

SERVER: dict[str, Any] = {
    "type": "object",
    "description": "A program that speaks over stdio (command), or an address (url).",
    "anyOf": [{"required": ["command"]}, {"required": ["url"]}],
    "properties": {
        "command": {"description": "The program, or program and arguments.", "anyOf": [_TEXT, _TEXTS]},
        "args": {"description": "Its arguments.", **_TEXTS},
        "env": {
            "description": "Environment variables for it; it gets none of ours but safe ones.",
            **_VALUES,
        },
        "environment": {"description": "The same as `env`.", **_VALUES},
        "envFile": {"description": "A file of NAME=value lines for its environment.", **_TEXT},
        "cwd": {"description": "The folder that it runs in. Without: the folder of this file.", **_TEXT},
        "url": {"description": "The address of a server over streamable HTTP.", **_TEXT},
        "headers": {"description": "Headers of every request to it.", **_VALUES},
        "type": {
            "description": "Found out from `command` and `url` when left out.",
            "enum": [*TYPES, *UNSUPPORTED],
        },
        "timeout": {
            "description": "Milliseconds to connect in, and for each call (30000).",
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": MAX_TIMEOUT,
        },
        "protocol": {
            "description": "Which protocol it speaks; 'auto' finds out.",
            "enum": list(PROTOCOLS),
        },
        "enabled": {"description": "false: it is not connected.", "type": "boolean"},
        "disabled": {"description": "true: it is not connected.", "type": "boolean"},
        "tools": {
            "description": "Which of its tools, by its own names: names and globs, or {name: bool}.",
            "anyOf": [
                {"type": "boolean"},
                _TEXTS,
                {"type": "object", "additionalProperties": {"type": "boolean"}},
            ],
        },
    },
}
