"""A client's tools and agents as an MCP server."""
