"""What `tools` and `agents` share: opening, what is missing, and a table."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from toolnexus.cli import loop
from toolnexus.cli.build import make_toolbox
from toolnexus.cli.exits import DONE, INCOMPLETE
from toolnexus.cli.notes import tell_notes
from toolnexus.cli.view.words import cells, fit, one_line, printable
from toolnexus.client import Client
from toolnexus.tools.skills import SkillIssue
from toolnexus.tools.skills.load import NOT_LOADED

NAME_WIDTH = 40
WIDTH = 100


def show(
    options: Namespace,
    *,
    as_json: Callable[[Client], dict[str, Any]],
    as_lines: Callable[[Client], list[str]],
) -> int:
    """Open a client, show something of it on stdout and what is missing on stderr. Gives the exit code."""

    async def body() -> int:
        async with make_toolbox(options) as client:
            missing = lacking(client)
            if options.json:
                about = {"missing": missing, "mcp": client.mcp_status()}
                print(json.dumps(as_json(client) | about, ensure_ascii=False))
            else:
                for line in as_lines(client):
                    print(printable(line))
            tell_notes(notes(client))
            for line in missing:
                print(printable(f"missing: {line}"), file=sys.stderr)
            return INCOMPLETE if missing else DONE

    return loop.run(body())


def lacking(client: Client) -> list[str]:
    """The servers, sources and skills that should be there and are not, a line each with the reason."""
    lines = [
        f"server {name!r}: {status['status']}, {status['reason']}"
        for name, status in client.mcp_status().items()
        if status["status"] not in ("connected", "disabled")
    ]
    lines += [f"source {name!r}: {reason}" for name, reason in client.source_failures.items()]
    return lines + [_about(issue) for issue in client.skill_report if issue["reason"] in NOT_LOADED]


def notes(client: Client) -> list[str]:
    """What else is to know: keys that change nothing, skills that are odd, or shadowed by another."""
    issues = [_about(issue) for issue in client.skill_report if issue["reason"] not in NOT_LOADED]
    return [*client.mcp_report, *issues]


def _about(issue: SkillIssue) -> str:
    return f"skill {issue['path']}: {issue['detail']} ({issue['reason']})"


def table(rows: Sequence[tuple[str, str]], indent: str = "  ") -> list[str]:
    """Names and what they are, in two columns."""
    width = min(max((cells(name) for name, _ in rows), default=0), NAME_WIDTH)
    out: list[str] = []
    for name, about in rows:
        room = WIDTH - len(indent) - width - 2
        text = one_line(about)
        text = fit(text, room).rstrip() if cells(text) > room else text
        head = name if cells(name) > width else fit(name, width)
        out.append(f"{indent}{head}  {text}".rstrip())
    return out
