"""A small shop over HTTP on this machine: it takes orders from whoever shows the key."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

STOCK = {"tea": 3, "green tea": 12, "cocoa": 0}


class Shop(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path != "/v1/articles":
            return self.answer(404, {"error": "no such page"})
        words = parse_qs(url.query).get("search", [""])
        found = {name: n for name, n in STOCK.items() if any(word in name for word in words)}
        self.answer(200, found)

    def do_POST(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("X-Shop-Key") != os.environ["SHOP_KEY"]:
            return self.answer(401, {"error": f"the key {self.headers.get('X-Shop-Key')} is not known"})
        if STOCK.get(order["article"], 0) < order["amount"]:
            return self.answer(409, {"error": f"only {STOCK.get(order['article'], 0)} left"})
        STOCK[order["article"]] -= order["amount"]
        self.answer(201, {"ordered": order["amount"], "left": STOCK[order["article"]]})

    def answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """The program says what happens."""


def start() -> ThreadingHTTPServer:
    """A shop on a free port; it needs a thread to serve."""
    return ThreadingHTTPServer(("127.0.0.1", 0), Shop)
