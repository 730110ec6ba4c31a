"""Agents that are written down in files."""

from toolnexus.agents.files import AgentFiles, load_agents, read_agents

__all__ = ["AgentFiles", "load_agents", "read_agents"]
