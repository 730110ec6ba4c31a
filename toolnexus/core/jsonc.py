"""JSON with the comments and trailing commas that editors accept."""

from __future__ import annotations

import re

# A string or comment without its end is one token up to the end of the text, and no quantifier gives
# anything back: no text takes long.
_COMMENT = re.compile(r'"(?:\\.|[^"\\])*+"?|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?', re.S)
_COMMA = re.compile(r'"(?:\\.|[^"\\])*+"?|,(?=\s*+[}\]])', re.S)


def plain_json(text: str) -> str:
    """`text` with comments and trailing commas blanked out; positions stay true. Never raises."""
    for token in (_COMMENT, _COMMA):  # a comma may trail only once the comment behind it is gone
        text = token.sub(_blank, text)
    return text


def _blank(match: re.Match[str]) -> str:
    token = match[0]
    return token if token[0] == '"' else re.sub(r"[^\n]", " ", token)
