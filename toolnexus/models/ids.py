"""Ids and names of tool calls that every endpoint accepts."""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 40
LONGEST_NAME = 64
_SAFE = re.compile(r"[A-Za-z0-9_-]{1,40}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHORT = re.compile(r"[A-Za-z0-9]{9}")


@lru_cache(maxsize=1024)  # asked once for the call and once for its result
def wire_id(id: str) -> str:
    """`id` when it is at most 40 of `[A-Za-z0-9_-]`, else a stable stand-in that is.

    A pure function of the id, so a call and its result stay a pair in every request.
    """
    return id if _SAFE.fullmatch(id) else _stand_in(id, LONGEST)


def short_id(id: str) -> str:
    """The same for endpoints that want nine letters and digits (Mistral)."""
    return id if _SHORT.fullmatch(id) else _digest(id)[:9]


@lru_cache(maxsize=1024)
def wire_name(name: str) -> str:
    """`name` of a called tool when it is 1 to 64 of `[A-Za-z0-9_-]`, else a stable stand-in that is.

    A model may call a tool that nobody offered, by a name that its endpoint does not take back.
    """
    return name if _NAME.fullmatch(name) else _stand_in(name, LONGEST_NAME)


def _stand_in(text: str, longest: int) -> str:
    head = re.sub(r"[^A-Za-z0-9_-]", "_", text)[: longest - 9]
    return f"{head}_{_digest(text)[:8]}"


def _digest(id: str) -> str:
    import hashlib

    return hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()
