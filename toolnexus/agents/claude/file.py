"""The format of `.claude/agents/*.md`: front matter, and the system prompt below it.

Our own names of keys and tools are accepted beside those of Claude Code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolnexus.agents import fields
from toolnexus.agents.fields import Keys
from toolnexus.agents.format import Found, Remarks, Written
from toolnexus.agents.markdown import Given, read_markdown
from toolnexus.agents.rights import read_rights

_KEYS = Keys(
    carried=("name", "description", "tools", "disallowedTools", "agents", "model", "maxTurns"),
    told={
        "permissionMode": "rules on permissions are the host's; what it may use is what its tools say",
        "skills": fields.SKILLS,
        "mcpServers": fields.SERVERS,
        "hooks": fields.HOOKS,
        "memory": "there is no memory between runs",
        "background": fields.BACKGROUND,
        "effort": fields.SET_ON_MODEL,
        "isolation": "it works in the folder of its caller",
        "initialPrompt": "its caller writes the prompt",
    },
    silent=("color",),
    limiting="'tools', 'disallowedTools', 'agents' or 'maxTurns'",
)


def read_claude_agent(written: Written) -> Sequence[Found]:
    """The agent that a Markdown file defines; none without front matter."""
    return read_markdown(written, _KEYS, _options)


def _options(given: Given, written: Written, remarks: Remarks) -> dict[str, Any]:
    description = fields.description_of(given, remarks)
    if "<example>" in description:  # line ends that Claude Code escapes to write it on one line
        description = description.replace("\\n", "\n")
    max_turns = fields.count_of(given, "maxTurns", remarks)
    model = fields.model_of(fields.text_of(given, "model", remarks), written.models, remarks)
    rights = read_rights(given.get("tools"), given.get("disallowedTools"), given.get("agents"), remarks)
    return {
        "description": description,
        "model": model,
        "tools": rights.tools,
        "agents": rights.agents,
        "max_turns": max_turns,
    }
