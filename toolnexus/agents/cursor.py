"""The format of `.cursor/agents/*.md`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolnexus.agents import fields
from toolnexus.agents.fields import Keys
from toolnexus.agents.format import Found, Remarks, Written
from toolnexus.agents.listed import OTHERS_STAY, READ_ONLY
from toolnexus.agents.markdown import Given, read_markdown
from toolnexus.agents.rights import read_rights

_KEYS = Keys(
    carried=("name", "description", "model", "readonly"),
    told={"is_background": fields.BACKGROUND},
    silent=("color",),
    limiting="'readonly'",
)


def read_cursor_agent(written: Written) -> Sequence[Found]:
    """The agent that a Markdown file defines; none without front matter."""
    return read_markdown(written, _KEYS, _options, may_lack_name=True)


def _options(given: Given, written: Written, remarks: Remarks) -> dict[str, Any]:
    denied = None
    if fields.flag_of(given, "readonly", remarks, doubt=True):
        denied = list(READ_ONLY)
        remarks.lose("readonly", OTHERS_STAY)
    model = fields.model_of(fields.text_of(given, "model", remarks), written.models, remarks)
    return {"model": model, "tools": read_rights(None, denied, None, remarks).tools}
