"""What the package says of its own options, in the words of the command line and of its documents."""

from __future__ import annotations

import re

_WORDS = (
    (r"api_key=…", "--api-key-env NAME"),
    (r"give base_url=(?![\w'])", "give base_url in a document, [openapi.NAME]"),
    (r"base_url=…", "--base-url URL"),
    (
        r"give headers=, for a query value base_url='[^']*'",
        "give headers or base_url in a document, [openapi.NAME]",
    ),
    (r"models=\{'([^']*)': 'provider:name'\}", r"--agent-model \1=PROVIDER:NAME"),
    (r"models=\{name: 'provider:name'\}", "--agent-model NAME=PROVIDER:NAME"),
    (r"Client\(mcp=…\)", "--mcp FILE, or mcpServers of a document"),
    (r"Client\(permissions=…\)", "--allow, --ask and --deny"),
    (r"Client\(agents=\[RemoteAgent\([^)]*\)\]\)", "an entry of agents with its card in a document"),
    (
        r"give a token in a2a and mcp, or allow_anonymous=True",
        "give a token (--token-env NAME), or --allow-anonymous",
    ),
    (r"(?m)^mcp\.(agents|instructions|name|token|tools)\b", r"mcpServer.\1"),
)


def spoken(text: str) -> str:
    """`text` as somebody at a terminal can act on it."""
    for words, here in _WORDS:
        text = re.sub(words, here, text)
    return text
