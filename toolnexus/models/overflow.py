"""Whether an endpoint refused a request as longer than the model can read, and how much it can."""

from __future__ import annotations

import re

_CODES = (
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_max_prompt_tokens_exceeded",
    "request_too_large",
)
_REFUSED = frozenset((400, 413, 422))
_SAID = re.compile(
    r"(?:prompt|input|request) is too long"
    r"|context[ _](?:length|window|limit|size)"
    r"|maximum prompt length"
    r"|token count.{0,40}exceeds"
    r"|reduce the length of the (?:messages|prompt)"
    r"|model token limit"
    r"|must be <= \d+.{0,20}tokens|`?inputs`? tokens \+",
    re.IGNORECASE,
)
_WINDOW = (
    re.compile(r"> ?(\d[\d,]*)"),
    re.compile(r"(?:maximum|limit|window|size)\D{0,40}?(\d[\d,]*)", re.IGNORECASE),
    re.compile(r"(\d[\d,]*) maximum", re.IGNORECASE),
)
_LEAST = 512
"""No model reads less: a smaller number means something else."""


def is_overflow(status: int, message: str, code: str) -> bool:
    """Whether the error says that the request is too long for the model, in any of the usual words."""
    if status == 413 or code in _CODES:
        return True
    return status in _REFUSED and _SAID.search(message) is not None


def window(message: str) -> int | None:
    """How many tokens the model can read, as far as `message` says it."""
    for pattern in _WINDOW:
        for found in pattern.findall(message):
            if (tokens := int(found.replace(",", ""))) >= _LEAST:
                return tokens
    return None
