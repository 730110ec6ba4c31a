"""Model Context Protocol, client side: one owner task per server, whatever the server does."""
