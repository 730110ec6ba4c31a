"""The format of `.gemini/agents/*.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolnexus.agents import fields
from toolnexus.agents.fields import Keys
from toolnexus.agents.format import Found, Remarks, Written
from toolnexus.agents.listed import names_in, tools_here
from toolnexus.agents.markdown import Given, read_markdown
from toolnexus.agents.rights import read_rights
from toolnexus.core.usage import Budget

_REMOTE = "make a RemoteAgent of its address"
_KEYS = Keys(
    carried=("name", "description", "kind", "tools", "model", "max_turns", "timeout_mins"),
    told={
        "mcpServers": fields.SERVERS,
        "temperature": fields.SET_ON_MODEL,
        "agent_card_url": _REMOTE,
        "agent_card_json": _REMOTE,
        "auth": "give the RemoteAgent headers; a command in a file is never run",
    },
    silent=("color", "display_name"),
    limiting="'tools', 'max_turns' or 'timeout_mins'",
)
_OURS: Mapping[str, Sequence[str]] = {
    "read_file": ("read",),
    "read_many_files": ("read",),
    "write_file": ("write",),
    "replace": ("edit",),
    "glob": ("glob",),
    "list_directory": ("glob",),
    "grep_search": ("grep",),
    "search_file_content": ("grep",),
    "run_shell_command": ("bash",),
    "web_fetch": ("webfetch",),
    "write_todos": ("todowrite",),
    "ask_user": ("question",),
    "activate_skill": ("skill",),
}


def read_gemini_agent(written: Written) -> Sequence[Found]:
    """The agent that a Markdown file defines; none without front matter. As there, it delegates to nobody."""
    return read_markdown(written, _KEYS, _options)


def _options(given: Given, written: Written, remarks: Remarks) -> dict[str, Any] | None:
    kind = fields.text_of(given, "kind", remarks)
    if kind == "remote":
        return remarks.leave_out("kind", f"{_REMOTE}: Client(agents=[RemoteAgent(name=…, card=…)])")
    if kind not in ("", "local"):
        remarks.fail("kind", f"{kind[:40]!r}; allowed are local and remote")
    max_turns = fields.count_of(given, "max_turns", remarks)
    minutes = fields.count_of(given, "timeout_mins", remarks)
    model = fields.model_of(fields.text_of(given, "model", remarks), written.models, remarks)
    rights = read_rights(_tools(given.get("tools"), remarks), None, None, remarks)
    budget = None if minutes is None else Budget(seconds=60.0 * minutes)
    return {"model": model, "tools": rights.tools, "agents": [], "max_turns": max_turns, "budget": budget}


def _tools(value: Any, remarks: Remarks) -> list[str] | None:
    listed = names_in(value, "tools", remarks)
    if listed is None or "*" in listed:
        return None
    servers = [name for name in listed if name.startswith("mcp_") and name != "mcp_*"]
    plain = [name for name in listed if name not in servers]
    return [*tools_here(plain, _OURS, remarks), *(name.removeprefix("mcp_") for name in servers)]
