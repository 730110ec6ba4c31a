"""The format of `.opencode/agents/*.md`: the place is the name, the text below is the system prompt."""

from __future__ import annotations

from collections.abc import Sequence

from toolnexus.agents import fields
from toolnexus.agents.format import Found, Remarks, Written
from toolnexus.agents.opencode.definition import KEYS, define


def read_opencode_agent(written: Written) -> Sequence[Found]:
    """The agent that a Markdown file defines; none without front matter."""
    remarks = Remarks()
    matter = fields.front_matter(written.text, KEYS, remarks)
    if matter is None:
        return [Found(None, remarks)] if remarks.wrong else []
    return [define(written.name, matter.fields, matter.body, written.models, remarks)]
