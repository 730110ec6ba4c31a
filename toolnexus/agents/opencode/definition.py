"""What one agent of opencode is, wherever it is written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolnexus.agents import fields
from toolnexus.agents.fields import Keys
from toolnexus.agents.format import Found, Remarks
from toolnexus.agents.opencode.rules import OURS, Line, as_permissions, read_lines
from toolnexus.agents.rights import Rights, read_rights
from toolnexus.engine.agent import Agent

_SET_THERE = "set it on the model, with params="

KEYS = Keys(
    carried=(
        "description",
        "mode",
        "model",
        "prompt",
        "system",
        "permission",
        "permissions",
        "tools",
        "steps",
        "maxSteps",
        "disable",
        "disabled",
    ),
    told={
        "name": "an agent is called by the place of its file",
        "variant": _SET_THERE,
        "temperature": _SET_THERE,
        "top_p": _SET_THERE,
        "options": _SET_THERE,
        "reasoningEffort": _SET_THERE,
    },
    silent=("color", "hidden"),
    limiting="'permission', 'permissions', 'tools', 'steps' or 'disable'",
)
MODES = ("primary", "subagent", "all")


def define(
    name: str,
    given: Mapping[str, Any],
    body: str | None,
    models: Mapping[str, str],
    remarks: Remarks,
    above: Sequence[Line] = (),
) -> Found:
    """The agent of these keys. `body`: the text below a header; `above`: lines that hold before its own."""
    values = fields.known(given, KEYS, remarks)
    remarks.name = fields.name_of({}, remarks, default=name)
    if any([fields.flag_of(values, key, remarks, doubt=True) for key in ("disable", "disabled")]):
        remarks.leave_out("disabled", "its file says so")
        return Found(None, remarks)
    mode = fields.text_of(values, "mode", remarks)
    if mode and mode not in MODES:
        remarks.fail("mode", f"{mode[:40]!r}; allowed are {', '.join(MODES)}")
    if mode == "primary":
        remarks.leave_out("mode", "a primary agent is for a person to choose, not to delegate to")
        return Found(None, remarks)
    lines = [*above]
    for key in ("permission", "permissions"):
        lines += read_lines(values.get(key), key, remarks)
    rights = _rights(values.get("tools"), remarks)
    permissions = as_permissions(lines, "permission", remarks)
    turns = [fields.count_of(values, key, remarks) for key in ("steps", "maxSteps")]
    description = fields.description_of(values, remarks)
    prompt = fields.prompt_of(_prompt(values, body, remarks), "prompt", remarks)
    model = _model(fields.text_of(values, "model", remarks), models, remarks)
    if remarks.wrong or remarks.name is None:
        return Found(None, remarks)
    agent = Agent(
        name=remarks.name,
        description=description,
        system_prompt=prompt,
        model=model,
        tools=rights.tools,
        max_turns=min([count for count in turns if count is not None], default=None),
        permissions=permissions,
    )
    return Found(agent, remarks)


def _prompt(values: Mapping[str, Any], body: str | None, remarks: Remarks) -> str:
    texts = [fields.text_of(values, key, remarks) for key in ("prompt", "system")]
    if any("{file:" in text for text in texts):
        remarks.fail("prompt", "no file is included; write the text of the prompt")
    texts = [text for text in (*texts, (body or "").strip()) if text]
    if len(texts) > 1:
        remarks.fail("prompt", "it is given twice; keep one of 'prompt', 'system' and the text below")
    return texts[0] if texts else ""


def _model(text: str, models: Mapping[str, str], remarks: Remarks) -> str | None:
    """`provider/id#variant` as a spec of ours."""
    name, mark, _ = text.partition("#")
    if mark:
        remarks.lose("model", f"the variant is not carried over: {_SET_THERE}")
    if name in models or "/" not in name:
        return fields.model_of(name, models, remarks)
    provider, _, id = name.partition("/")
    if id in models:
        return models[id]
    if provider in ("openai", "anthropic"):
        return f"{provider}:{id}"
    say = f"say what it is with models={{{name!r}: 'provider:name'}}"
    remarks.lose("model", f"the provider {provider!r} is not known here, so the caller's is used; {say}")
    return None


def _rights(tools: Any, remarks: Remarks) -> Rights:
    """What the old table of tools to true or false leaves: those that are off are denied."""
    if not isinstance(tools, Mapping):
        return read_rights(tools or None, None, None, remarks)
    table = cast("Mapping[str, Any]", tools)
    if not all(value in ("true", "false") for value in table.values()):
        remarks.fail("tools", "give each tool true or false")
        return Rights(None, None)
    on = _here(table, "true", remarks)
    off = _here(table, "false", remarks)
    return read_rights(on, None, None, remarks) if "*" in off else read_rights(None, off, None, remarks)


def _here(table: Mapping[str, str], value: str, remarks: Remarks) -> list[str]:
    out: list[str] = []
    for name in [tool for tool, given in table.items() if given == value]:
        ours = OURS.get(name, (name,))
        if not ours:
            remarks.lose("tools", f"{name} is left out: there is no such tool here")
        out += ours
    return out
