"""Tools that a definition lists by the names of its host, and what they are called here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolnexus.agents.format import Remarks

MOST = 500
READ_ONLY = ("edit", "write", "apply_patch", "bash")
"""What an agent that must change nothing is denied: commands, too, since nobody knows what they do."""
OTHERS_STAY = "tools that change files and commands are denied; nobody knows that of functions and servers"


def names_in(value: Any, key: str, remarks: Remarks) -> list[str] | None:
    """The names in a list, or in a text with commas; None when the key is not given."""
    if value is None or value == "null":
        return None
    listed = cast("list[Any]", value) if isinstance(value, list) else str(value).split(",")
    if isinstance(value, Mapping) or not all(isinstance(name, str) for name in listed):
        remarks.fail(key, "give a list of names")
        return []
    names = [name.strip() for name in cast("list[str]", listed)]
    if len(names) > MOST:
        remarks.fail(key, f"it has {len(names)} names; at most {MOST} are read")
        return []
    return [name for name in names if name]


def tools_here(
    listed: Sequence[str], ours: Mapping[str, Sequence[str]], remarks: Remarks, key: str = "tools"
) -> list[str]:
    """What `ours` says that each name is here; a name that it does not hold is left out, and told."""
    out: list[str] = []
    for name in listed:
        found = ours.get(name.lower())
        if not found:
            remarks.lose(key, f"{name[:60]} does not exist here and is left out")
        out += found or ()
    return list(dict.fromkeys(out))
