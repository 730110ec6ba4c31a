"""Names of tools in Claude Code, and what they mean here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

from toolnexus.core.names import model_names, sanitize
from toolnexus.tools.builtin.catalog import NAMES
from toolnexus.tools.filters import is_glob

OURS = {
    "Read": "read",
    "Write": "write",
    "Edit": "edit",
    "MultiEdit": "edit",
    "Grep": "grep",
    "Glob": "glob",
    "LS": "glob",
    "Bash": "bash",
    "WebFetch": "webfetch",
    "TodoWrite": "todowrite",
    "AskUserQuestion": "question",
    "Skill": "skill",
    "Task": "task",
    "Agent": "task",
}
NOT_HERE = frozenset(
    "AgentOutputTool Artifact BashOutput CronCreate CronDelete CronList DesignSync EnterPlanMode"
    " EnterWorktree ExitPlanMode ExitWorktree KillBash KillShell ListAgents ListMcpResourcesTool LSP Monitor"
    " NotebookEdit NotebookRead PowerShell PushNotification ReadMcpResourceDirTool ReadMcpResourceTool"
    " RefreshMcpTools RemoteTrigger ReportFindings ScheduleWakeup SendFeedback SendMessage SendUserFile"
    " ShareOnboardingGuide SlashCommand TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate TeamCreate"
    " TeamDelete TodoRead ToolSearch WaitForMcpServers WebSearch Workflow".split()
)

_BUILTINS = frozenset({*NAMES, *OURS.values(), "apply_patch"}) - {"skill"}
_FOLDED = {name.lower(): ours for name, ours in OURS.items()}
_FOLDED_NOT_HERE = frozenset(name.lower() for name in NOT_HERE)
_GRANT = re.compile(r"([\w*?-]+)(?:\((.*)\))?", re.ASCII | re.DOTALL)


class Grant(NamedTuple):
    """One tool as it is written."""

    name: str
    scope: str | None
    """What stands in brackets; None: the whole tool."""


class Target(NamedTuple):
    """What it means here."""

    kind: str
    """The kind of source in a mapping of filters."""
    name: str
    """The final name, or a glob of such."""


TASK = Target("builtins", "task")
WRITTEN = "written"
"""The kind of a denied name of theirs, as it is written: a host may have a tool of that name."""


def read_grants(listed: Iterable[str]) -> list[Grant]:
    """The tools that the entries of a list name, cut at commas and blanks outside brackets.

    Raises `ValueError` for what is no name, and for brackets that do not match.
    """
    return [_grant(word) for entry in _joined(listed) for word in _words(entry)]


def _joined(listed: Iterable[str]) -> list[str]:
    """The entries, with brackets whole: a list of YAML cuts them apart at a comma."""
    out: list[str] = []
    whole = True
    for entry in listed:
        if whole:
            out.append(entry)
        elif "(" in entry:
            raise ValueError("the brackets do not match")
        else:
            out[-1] = f"{out[-1]}, {entry}"
        whole = out[-1].count("(") <= out[-1].count(")")
    return out


def _words(text: str) -> list[str]:
    words, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            break
        if depth == 0 and (char == "," or char.isspace()):
            words.append("")
        else:
            words[-1] += char
    if depth != 0:
        raise ValueError("the brackets do not match")
    return [word for word in words if word]


def _grant(word: str) -> Grant:
    match = _GRANT.fullmatch(word.strip("\"'`"))
    if match is None:
        raise ValueError(f"{word.partition('(')[0][:40]!r} is no name of a tool")
    name, scope = match[1], match[2]
    if name != "*" and is_glob(name) and any(fnmatchcase(theirs, name) for theirs in (*OURS, *NOT_HERE)):
        raise ValueError(f"{name!r} is a pattern over names of Claude Code; write the names out")
    return Grant(name, None if scope is None or scope.strip() == "*" else scope)


def target_of(grant: Grant) -> Target | None:
    """What a name means here; None for a tool that does not exist here.

    A name in small letters is a name of ours or of the host's, never one of Claude Code.
    """
    name = grant.name
    if name.startswith("mcp__"):
        return Target("mcp", _mcp_name(name))
    folded = "" if name.islower() else name.lower()
    if folded in _FOLDED_NOT_HERE:
        return None
    name = _FOLDED.get(folded, name)
    kind = "skills" if name == "skill" else "builtins" if name in _BUILTINS else "native"
    return Target(kind, name)


def mcp_parts(name: str) -> tuple[str, str]:
    """Server and tool of `mcp__server__tool`; what is left out is everything."""
    server, _, tool = name.removeprefix("mcp__").partition("__")
    return server or "*", tool or "*"


def _mcp_name(name: str) -> str:
    """The final name here; a server alone is a glob for all its tools."""
    server, tool = mcp_parts(name)
    if is_glob(server) or is_glob(tool):
        return f"{_sanitized(server)}_{_sanitized(tool)}"
    return model_names([(f"{sanitize(server)}_{sanitize(tool)}", f"{server}\0{tool}")])[0]


def _sanitized(pattern: str) -> str:
    return "".join(c if c in "*?" else sanitize(c) for c in pattern)
