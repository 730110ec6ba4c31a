"""`toolnexus tools`: what a model would get."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from toolnexus.cli.listing import show, table
from toolnexus.cli.view.words import plural
from toolnexus.client import Client
from toolnexus.core.tools import Tool


def command(options: Namespace) -> int:
    """List the tools by source. Gives the exit code."""
    return show(options, as_json=_as_json, as_lines=_as_lines)


def _as_json(client: Client) -> dict[str, Any]:
    skills = [{"name": s.name, "description": s.description} for s in client.skills]
    return {"tools": [_described(tool) for tool in client.toolkit], "skills": skills}


def _described(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "source": tool.source,
        "origin": tool.origin,
        "original_name": tool.original_name,
        "input_schema": tool.input_schema,
    }


def _as_lines(client: Client) -> list[str]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for tool in client.toolkit:
        group = f"{tool.source} {tool.origin}" if tool.origin else tool.source
        groups.setdefault(group, []).append((tool.name, tool.description))
    lines: list[str] = []
    for group, rows in groups.items():
        lines += [group, *table(rows), ""]
    if client.skills:
        lines += ["skills", *table([(s.name, s.description) for s in client.skills]), ""]
    return [*lines, plural(len(client.toolkit.names()), "tool")]
