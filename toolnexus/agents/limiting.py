"""Keys of a header: the spellings of those that are known, and what would limit an agent if it were known."""

from __future__ import annotations

import re
from collections.abc import Iterable

_HOLDS = ("tool",)
_BEGINS = ("deny", "denied", "allow", "disallow", "exclude", "block", "forbid", "restrict")
_ENDS = ("agent", "agents")
_NEAR = (
    "tools",
    "agents",
    "disallowedtools",
    "allowedtools",
    "maxturns",
    "readonly",
    "permission",
    "permissions",
)
"""What a key that takes something away from an agent is called, here or in other formats."""

MERGE = "<<"
"""A merge key of YAML: what it brings along is read by nobody here."""


def folded(key: str) -> str:
    """`key` without what tells its spellings apart: `max-turns`, `max_turns` and `maxTurns` are one."""
    return re.sub(r"[-_.\s]", "", key).casefold()


def limits(key: str) -> bool:
    """Whether an agent without this key could do more than whoever wrote it may have meant."""
    plain = folded(key)
    return (
        plain == MERGE
        or any(word in plain for word in _HOLDS)
        or plain.startswith(_BEGINS)
        or plain.endswith(_ENDS)
        or _is_near(plain, _NEAR)
    )


def _is_near(word: str, known: Iterable[str]) -> bool:
    """Whether one letter more, less or another, or two that changed places, make it one of `known`."""
    return any(abs(len(word) - len(other)) <= 1 and _one_slip(word, other) for other in known)


def _one_slip(one: str, other: str) -> bool:
    if len(one) > len(other):
        one, other = other, one
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    rest, others = one[at:], other[at:]
    if len(one) < len(other):
        return rest == others[1:]
    return rest[1:] == others[1:] or (rest[:2] == others[1::-1] and rest[2:] == others[2:])
