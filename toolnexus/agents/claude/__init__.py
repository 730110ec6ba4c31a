"""The format of `.claude/agents/*.md`."""

from toolnexus.agents.claude.file import read_claude_agent

__all__ = ["read_claude_agent"]
