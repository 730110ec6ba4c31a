"""The format of `.codex/agents/*.toml`."""

from __future__ import annotations

from collections.abc import Sequence

from toolnexus.agents import fields
from toolnexus.agents.fields import Keys
from toolnexus.agents.format import Found, Remarks, Written
from toolnexus.agents.listed import OTHERS_STAY, READ_ONLY
from toolnexus.agents.rights import read_rights
from toolnexus.engine.agent import Agent

_KEYS = Keys(
    carried=("name", "description", "developer_instructions", "model", "sandbox_mode"),
    told={
        "approval_policy": "what is asked first is the host's to say: Client(permissions=…)",
        "mcp_servers": fields.SERVERS,
        "model_provider": "say whose it is: models={name: 'provider:name'}",
        "model_reasoning_effort": fields.SET_ON_MODEL,
        "model_reasoning_summary": fields.SET_ON_MODEL,
        "model_verbosity": fields.SET_ON_MODEL,
        "sandbox_workspace_write": "commands run in the sandbox that the client gives them",
        "skills": fields.SKILLS,
    },
    silent=("nickname_candidates",),
    limiting="'sandbox_mode'",
)
_READ, _WRITE, _ALL = "read-only", "workspace-write", "danger-full-access"


def read_codex_agent(written: Written) -> Sequence[Found]:
    """The agent that a TOML file defines. As there, it delegates to nobody."""
    import tomli

    remarks = Remarks()
    try:
        table = tomli.loads(written.text)
    except (ValueError, RecursionError) as error:
        remarks.fail("document", f"it does not parse: {error}")
        return [Found(None, remarks)]
    given = fields.known(fields.as_text(table), _KEYS, remarks)
    remarks.name = fields.name_of(given, remarks)
    description = fields.description_of(given, remarks)
    instructions = fields.text_of(given, "developer_instructions", remarks, missing="say what it does")
    model = fields.model_of(fields.text_of(given, "model", remarks), written.models, remarks)
    rights = read_rights(
        None, _denied(fields.text_of(given, "sandbox_mode", remarks), remarks), None, remarks
    )
    if remarks.wrong or remarks.name is None:
        return [Found(None, remarks)]
    agent = Agent(
        name=remarks.name,
        description=description,
        system_prompt=instructions,
        model=model,
        tools=rights.tools,
        agents=[],
    )
    return [Found(agent, remarks)]


def _denied(mode: str, remarks: Remarks) -> list[str] | None:
    if mode == _READ:
        remarks.lose("sandbox_mode", OTHERS_STAY)
        return list(READ_ONLY)
    if mode == _WRITE:
        remarks.lose("sandbox_mode", "file tools stay in the folder; commands need the client's sandbox")
    elif mode == _ALL:
        remarks.lose("sandbox_mode", "a file gives no rights")
    elif mode:
        remarks.fail("sandbox_mode", f"{mode[:40]!r}; allowed are {_READ}, {_WRITE}, {_ALL}")
    return None
