"""The formats of opencode: `.opencode/agents/*.md` and `opencode.json`, of both versions."""

from toolnexus.agents.opencode.document import read_opencode_document
from toolnexus.agents.opencode.file import read_opencode_agent

__all__ = ["read_opencode_agent", "read_opencode_document"]
