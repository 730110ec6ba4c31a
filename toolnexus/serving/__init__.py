"""A client for others to use: as an A2A agent, and as an MCP server.

Above: the command line. Below: the client, which does all the work; here it is only put within reach.
"""
