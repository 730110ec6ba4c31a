"""The format of `.github/agents/*.md` and `*.agent.md`, of VS Code and GitHub Copilot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolnexus.agents import fields
from toolnexus.agents.fields import Keys
from toolnexus.agents.format import Found, Remarks, Written
from toolnexus.agents.listed import names_in, tools_here
from toolnexus.agents.markdown import Given, read_markdown
from toolnexus.agents.rights import read_rights

_KEYS = Keys(
    carried=(
        "name",
        "description",
        "tools",
        "agents",
        "model",
        "disable-model-invocation",
        "infer",
    ),
    told={
        "argument-hint": "its caller writes the prompt",
        "handoffs": "who comes next is for its caller to say, or for a workflow",
        "hooks": fields.HOOKS,
        "mcp-servers": fields.SERVERS,
        "target": "it works wherever it is loaded",
    },
    silent=("color", "metadata", "user-invocable", "user-invokable"),
    limiting="'tools' or 'agents'",
)

_FIND = ("grep", "glob")
_CHANGE = ("edit", "write", "apply_patch")
_OURS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("read", "readfile", "read/readfile", "notebookread"), ("read",)),
    **dict.fromkeys("edit editfiles edit/editfiles multiedit write notebookedit".split(), _CHANGE),
    **dict.fromkeys(("createfile", "edit/createfile"), ("write",)),
    **dict.fromkeys(("search",), _FIND),
    **dict.fromkeys(("textsearch", "search/textsearch", "grep"), ("grep",)),
    **dict.fromkeys(("filesearch", "search/filesearch", "listdirectory", "search/listdirectory"), ("glob",)),
    "glob": ("glob",),
    **dict.fromkeys("execute shell bash powershell runcommands".split(), ("bash",)),
    **dict.fromkeys(("runinterminal", "execute/runinterminal"), ("bash",)),
    **dict.fromkeys(("web", "fetch", "web/fetch", "webfetch"), ("webfetch",)),
    **dict.fromkeys(("todo", "todos", "todowrite"), ("todowrite",)),
    **dict.fromkeys(("agent", "runsubagent", "agent/runsubagent", "custom-agent", "task"), ("task",)),
    **dict.fromkeys(("askquestions", "vscode/askquestions"), ("question",)),
}
_SETS = frozenset("agent browser edit execute read search todo vscode web".split())
"""Sets of tools of the editor itself: `set/tool` names none of a server."""


def read_vscode_agent(written: Written) -> Sequence[Found]:
    """The agent that a Markdown file defines; none without front matter."""
    return read_markdown(written, _KEYS, _options, may_lack_name=True)


def _options(given: Given, written: Written, remarks: Remarks) -> dict[str, Any] | None:
    hidden = fields.flag_of(given, "disable-model-invocation", remarks, doubt=True)
    if hidden or fields.text_of(given, "infer", remarks).lower() == "false":
        return remarks.leave_out("disable-model-invocation", "a model may not delegate to it, its file says")
    model = _model(given.get("model"), written.models, remarks)
    rights = read_rights(_tools(given.get("tools"), remarks), None, given.get("agents"), remarks)
    return {"model": model, "tools": rights.tools, "agents": rights.agents}


def _tools(value: Any, remarks: Remarks) -> list[str] | None:
    """The names as `read_rights` takes them: ours, and those of servers."""
    listed = names_in(value, "tools", remarks)
    if listed is None or "*" in listed:
        return None
    servers: list[str] = []
    plain: list[str] = []
    for name in listed:
        server, slash, tool = name.rpartition("/")
        if slash and server.lower() not in _SETS and name.lower() not in _OURS:
            servers.append(f"mcp__{server.rpartition('/')[2]}__{tool}")
        else:
            plain.append(name)
    return [*tools_here(plain, _OURS, remarks), *servers]


def _model(value: Any, models: Mapping[str, str], remarks: Remarks) -> str | None:
    """The first that is known of a name or of several, without the vendor in brackets behind it."""
    listed = names_in([value] if isinstance(value, str) else value, "model", remarks) or []
    names = [name.partition(" (")[0] for name in listed]
    first = next((name for name in names if name in models), names[0] if names else "")
    if len(names) > 1:
        remarks.lose("model", f"{first!r} is taken of {len(names)}; for more in turn give a FallbackModel")
    if first and first not in models and " " in first:  # a name of the editor's list, no id
        say = f"say what it is with models={{{first!r}: 'provider:name'}}"
        remarks.lose("model", f"{first!r} is not known here, so the caller's model is used; {say}")
        return None
    return fields.model_of(first, models, remarks)
