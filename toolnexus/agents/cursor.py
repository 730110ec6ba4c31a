"""The format of `.cursor/agents/*.md`."""

from __future__ import annotations

from collections.abc import Sequence

from toolnexus.agents import fields
from toolnexus.agents.fields import Keys
from toolnexus.agents.format import Found, Remarks, Written
from toolnexus.agents.listed import OTHERS_STAY, READ_ONLY
from toolnexus.agents.rights import read_rights
from toolnexus.engine.agent import Agent

_KEYS = Keys(
    carried=("name", "description", "model", "readonly"),
    told={"is_background": fields.BACKGROUND},
    silent=("color",),
    limiting="'readonly'",
)


def read_cursor_agent(written: Written) -> Sequence[Found]:
    """The agent that a Markdown file defines; none without front matter."""
    remarks = Remarks()
    matter = fields.front_matter(written.text, _KEYS, remarks)
    if matter is None:
        return [Found(None, remarks)] if remarks.wrong else []
    given = fields.known(matter.fields, _KEYS, remarks)
    remarks.name = fields.name_of(given, remarks, default=written.name)
    denied = None
    if fields.flag_of(given, "readonly", remarks, doubt=True):
        denied = list(READ_ONLY)
        remarks.lose("readonly", OTHERS_STAY)
    description = fields.description_of(given, remarks)
    model = fields.model_of(fields.text_of(given, "model", remarks), written.models, remarks)
    rights = read_rights(None, denied, None, remarks)
    prompt = fields.prompt_of(matter.body, "body", remarks)
    if remarks.wrong or remarks.name is None:
        return [Found(None, remarks)]
    agent = Agent(
        name=remarks.name,
        description=description,
        system_prompt=prompt,
        model=model,
        tools=rights.tools,
    )
    return [Found(agent, remarks)]
