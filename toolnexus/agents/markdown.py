"""What the formats in Markdown share: a header of keys, and the system prompt below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolnexus.agents import fields
from toolnexus.agents.fields import Keys
from toolnexus.agents.format import Found, Remarks, Written
from toolnexus.engine.agent import Agent

Given = Mapping[str, Any]


def read_markdown(
    written: Written,
    keys: Keys,
    options: Callable[[Given, Written, Remarks], dict[str, Any] | None],
    *,
    may_lack_name: bool = False,
) -> Sequence[Found]:
    """The agent that a Markdown file defines; none without front matter.

    `options` gives what else the agent is made with; None when it is left out. One without a name is called
    by its place, where it may lack one.
    """
    remarks = Remarks()
    matter = fields.front_matter(written.text, keys, remarks)
    if matter is None:
        return [Found(None, remarks)] if remarks.wrong else []
    given = fields.known(matter.fields, keys, remarks)
    remarks.name = fields.name_of(given, remarks, default=written.name if may_lack_name else "")
    more = options(given, written, remarks)
    if more is None:
        return [Found(None, remarks)]
    if "description" not in more:
        more["description"] = fields.description_of(given, remarks)
    prompt = fields.prompt_of(matter.body, "body", remarks)
    if remarks.wrong or remarks.name is None:
        return [Found(None, remarks)]
    return [Found(Agent(name=remarks.name, system_prompt=prompt, **more), remarks)]
