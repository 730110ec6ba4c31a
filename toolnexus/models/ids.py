"""Tool call ids that every endpoint accepts."""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 40
_SAFE = re.compile(r"[A-Za-z0-9_-]{1,40}")
_SHORT = re.compile(r"[A-Za-z0-9]{9}")


@lru_cache(maxsize=1024)  # asked once for the call and once for its result
def wire_id(id: str) -> str:
    """`id` when it is at most 40 of `[A-Za-z0-9_-]`, else a stable stand-in that is.

    A pure function of the id, so a call and its result stay a pair in every request.
    """
    if _SAFE.fullmatch(id):
        return id
    head = re.sub(r"[^A-Za-z0-9_-]", "_", id)[: LONGEST - 9]
    return f"{head}_{_digest(id)[:8]}"


def short_id(id: str) -> str:
    """The same for endpoints that want nine letters and digits (Mistral)."""
    return id if _SHORT.fullmatch(id) else _digest(id)[:9]


def _digest(id: str) -> str:
    import hashlib

    return hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()
