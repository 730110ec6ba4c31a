"""A small MCP server over stdio: the stock of a shop. The client starts it as a child process."""

from mcp.server import MCPServer

server = MCPServer("shop")
stock = {"tea": 3, "coffee": 40, "cocoa": 0}


@server.tool()
def levels() -> dict[str, int]:
    """How many of each item there are."""
    return stock


@server.tool()
def order(item: str, count: int) -> str:
    """Order more of an item."""
    if item not in stock:
        raise ValueError(f"there is no {item!r}; items: {sorted(stock)}")
    stock[item] += count
    return f"ordered {count} {item}, now {stock[item]}"


if __name__ == "__main__":
    server.run()
