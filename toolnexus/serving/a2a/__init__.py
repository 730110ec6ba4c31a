"""A client as an A2A agent."""
