"""A description with examples, as Claude Code writes it: several lines, none of them indented."""

from __future__ import annotations

import re
from collections.abc import Callable

_KEY = re.compile(r"([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]|$)")
_TAG = re.compile(r"</?example>")


def indent_examples(header: list[str], is_key: Callable[[str], bool]) -> list[str]:
    """`header` with the lines of unindented `<example>` blocks made lines of the description.

    A block that does not close, opens twice or holds a key leaves everything as it is: nobody knows
    where the description ends then, and what limits the agent must not vanish in it.
    """
    out: list[str] = []
    key, inside = "", False
    for line in header:
        start = _KEY.match(line)
        if start and inside and is_key(start[1]):
            return header
        if start and not inside:
            key = start[1]
        belongs = inside or (key == "description" and line.startswith("<example>"))
        out.append(f"  {line}" if belongs and not line.startswith((" ", "\t")) else line)
        for tag in _TAG.findall(line) if key == "description" else ():
            if inside == (tag == "<example>"):
                return header
            inside = tag == "<example>"
    return header if inside else out
