"""The format of `.claude/agents/*.md`: front matter, and the system prompt below it.

Our own names of keys and tools are accepted beside those of Claude Code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolnexus.agents.claude.header import indent_examples
from toolnexus.agents.claude.keys import folded, limits
from toolnexus.agents.claude.rights import read_rights
from toolnexus.agents.format import Remarks
from toolnexus.core.names import did_you_mean
from toolnexus.engine.agent import Agent
from toolnexus.tools.front_matter import FrontMatter, parse, split

_KEYS = ("name", "description", "tools", "disallowedTools", "agents", "model", "maxTurns")
"""The keys that are carried over; any spelling of one is that key."""

_NOT_CARRIED = {
    "permissionMode": "rules on permissions are the host's; what it may use is what its tools say",
    "skills": "skills are loaded with the skill tool when they are needed, not put into the prompt",
    "mcpServers": "servers belong to the client: Client(mcp=…)",
    "hooks": "a command in a file is never run; give the client hooks",
    "memory": "there is no memory between runs",
    "background": "whether it runs beside others is for its caller to say",
    "effort": "set it on the model",
    "isolation": "it works in the folder of its caller",
    "initialPrompt": "its caller writes the prompt",
}
_LOOKS_ONLY = ("color",)

_LIMITING = "'tools', 'disallowedTools', 'agents' or 'maxTurns'"
_BY_FOLDED = {folded(key): key for key in (*_KEYS, *_NOT_CARRIED, *_LOOKS_ONLY)}

_COUNT = re.compile(r"[1-9][0-9]{0,8}")


def read_claude_agent(text: str, models: Mapping[str, str], remarks: Remarks) -> Agent | None:
    """The agent that `text` defines; None without front matter. What is wrong or left out is in `remarks`."""
    matter = _front_matter(text, remarks)
    if matter is None:
        return None
    fields = _known(matter.fields, remarks)
    remarks.name = _name(fields, remarks)
    description = _text(fields, "description", remarks, missing="say when to use the agent")
    if "<example>" in description:  # line ends that Claude Code escapes to write it on one line
        description = description.replace("\\n", "\n")
    max_turns = _max_turns(fields, remarks)
    model = _model(_text(fields, "model", remarks), models, remarks)
    rights = read_rights(fields.get("tools"), fields.get("disallowedTools"), fields.get("agents"), remarks)
    prompt = matter.body.strip()
    if not prompt:
        remarks.lose("body", "it is empty: the agent has no system prompt")
    if remarks.wrong or remarks.name is None:
        return None
    return Agent(
        name=remarks.name,
        description=description,
        system_prompt=prompt,
        model=model,
        tools=rights.tools,
        agents=rights.agents,
        max_turns=max_turns,
    )


def _front_matter(text: str, remarks: Remarks) -> FrontMatter | None:
    try:
        lines, body = split(text)
        if lines is None:
            return None
        matter = parse(indent_examples(lines, _is_ours), body)
    except ValueError as error:
        return remarks.fail("front matter", str(error))
    for key in matter.repeated:
        remarks.fail(repr(key), "it is given twice; keep one")
    for key in matter.rescued:
        remarks.lose(key, "it is no valid YAML text and was taken as written; put it in quotes")
    return matter


def _is_ours(key: str) -> bool:
    """Whether a line of the header begins a key; in a sentence such words begin with a capital letter."""
    return key[:1].islower() and _BY_FOLDED.get(folded(key)) in _KEYS


def _known(header: Mapping[str, Any], remarks: Remarks) -> dict[str, Any]:
    """The values that are carried over, by what they mean; all others are told."""
    out: dict[str, Any] = {}
    for key, value in header.items():
        meaning = _BY_FOLDED.get(folded(key), key)
        if meaning not in _KEYS:
            _not_carried(meaning, value, remarks)
        elif meaning in out:
            remarks.fail(key, "it is given twice, in two spellings; keep one")
        else:
            out[meaning] = value
    return out


def _not_carried(key: str, value: Any, remarks: Remarks) -> None:
    if key in _LOOKS_ONLY:
        return
    if key in _NOT_CARRIED:
        if value not in ("", [], {}):
            remarks.lose(key, _NOT_CARRIED[key])
        return
    key = key[:60]
    if limits(key):
        remarks.fail(repr(key), f"this key does not limit an agent; write {_LIMITING}")
    else:
        remarks.lose(repr(key), f"unknown key{did_you_mean(key, [*_KEYS, *_NOT_CARRIED])}")


def _text(fields: Mapping[str, Any], key: str, remarks: Remarks, *, missing: str = "") -> str:
    """The text under `key`, `""` for none. `missing`: what to do about a key that must be there."""
    value = fields.get(key, "")
    if not isinstance(value, str):
        remarks.fail(key, "give a text")
        return ""
    if missing and not value.strip():
        remarks.fail(key, f"it is missing; {missing}")
    return value.strip()


def _name(fields: Mapping[str, Any], remarks: Remarks) -> str | None:
    name = _text(fields, "name", remarks, missing="others delegate to an agent by its name")
    if len(name) > 64 or not name.isprintable():
        return remarks.fail("name", "a name is one line of 1 to 64 characters")
    return name or None


def _max_turns(fields: Mapping[str, Any], remarks: Remarks) -> int | None:
    text = _text(fields, "maxTurns", remarks)
    if text and not _COUNT.fullmatch(text):
        return remarks.fail("maxTurns", "give a whole number of 1 or more")
    return int(text) if text else None


def _model(text: str, models: Mapping[str, str], remarks: Remarks) -> str | None:
    """A spec for `Agent`: what `models` says, `provider:name`, or a name at the client's own endpoint."""
    if text in models or ":" in text:
        return models.get(text, text)
    name, bracket, _ = text.partition("[")
    if bracket:
        remarks.lose("model", "the size of the context window is not carried over")
    alias = name.lower()
    if alias in models:
        return models[alias]
    if not alias.isalpha():  # a full name of a model has more than letters
        return name or None
    if alias != "inherit":
        say = f"say what it is with models={{{alias!r}: 'provider:name'}}"
        remarks.lose("model", f"{alias!r} is not known here, so the caller's model is used; {say}")
    return None
