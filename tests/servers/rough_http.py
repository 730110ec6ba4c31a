"""The HTTP side of `rough_mcp.py`; standard library only."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any, ClassVar


class Handler(BaseHTTPRequestHandler):
    """Streamable HTTP with sessions (handshake era) or without (stateless era); answers are JSON."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    rough: ClassVar[Any]
    server_side: ClassVar[Any]
    sessions: ClassVar[set[str]] = set()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def out(self, status: int, body: object = None, **headers: str) -> None:
        data = body.encode() if isinstance(body, str) else b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.out(405)

    def do_DELETE(self) -> None:
        self.rough.log({"deleted": self.headers["mcp-session-id"]})
        self.out(200)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        session = self.headers["mcp-session-id"]
        self.rough.log({"session": session, "authorization": self.headers["authorization"], **message})
        method = message.get("method")
        if self.rough.options.token and self.headers["authorization"] != f"Bearer {self.rough.options.token}":
            return self.out(401, f"who are you? you said {self.headers['authorization']}")
        if self.rough.options.era == "handshake":
            if method == "initialize":
                session = os.urandom(16).hex()
                self.sessions.add(session)
                return self.out(200, self.rough.reply(self.server_side, message), mcp_session_id=session)
            if session is None:
                return self.out(
                    400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no session"}}
                )
            if session not in self.sessions:
                return self.out(
                    404, {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "unknown"}}
                )
        if method is None or "id" not in message:
            self.server_side.note(message)
            return self.out(202)
        name = self.rough.part(message, "params").get("name")
        arguments = self.rough.part(self.rough.part(message, "params"), "arguments")
        if name == "forget":
            self.sessions.clear()
        if name == "status":
            return self.out(arguments["code"], arguments["body"])
        if name == "redirect":
            return self.out(307, None, location=arguments["to"])
        if name == "cut":
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b'{"jsonrpc"')
            self.close_connection = True
            return None
        return self.out(200, self.rough.reply(self.server_side, message))


class Threads(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def serve(port: int, server: Any, rough: ModuleType) -> None:
    """Serve for ever. `rough` is the program with its options."""
    Handler.server_side, Handler.rough = server, rough
    http = Threads(("127.0.0.1", port), Handler)
    print("PORT", http.server_address[1], flush=True)
    http.serve_forever()
