"""An MCP server for tests that misbehaves on request; standard library only.

Over stdio, or with `--http` over streamable HTTP (prints `PORT <n>` first). See the flags below and
the methods called `tool_…`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import types

TYPE_CHECKING = False  # it is started often: argparse and typing would take it longer than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Json = dict[str, Any]

options = types.SimpleNamespace(
    banner=False,  # print words on stdout first
    stderr_kb=0,  # write that much to stderr first
    exit=-1,  # say why on stderr and exit with this status at once
    hang=False,  # read everything, answer nothing
    deaf=False,  # survive end of file and SIGTERM
    child=False,  # start a child that is just as deaf
    brief=False,  # exit shortly after the first listing
    pages=1,  # spread the tools over that many pages
    same_cursor=False,  # give the same cursor for ever
    many=0,  # offer that many tools more
    names="[]",  # JSON list of more tool names
    odd=False,  # offer tools with odd definitions, too
    early_change=False,  # tell of changes before anybody asked
    era="handshake",  # or stateless
    silent=False,  # ignore unknown methods
    slow_start=0.0,
    http=-1,  # serve HTTP on that port; 0: any
    token="",  # HTTP: ask for this bearer token
    log="",  # append every message received to this file
)


def read_options(words: list[str]) -> None:
    """Take `--early-change` as a switch, `--pages 3` as a value of the type that the default has."""
    left = iter(words)
    for word in left:
        name = word.removeprefix("--").replace("-", "_")
        default: object = getattr(options, name)
        if isinstance(default, bool):
            setattr(options, name, True)
        elif isinstance(default, int | float):
            setattr(options, name, type(default)(next(left)))
        else:
            setattr(options, name, next(left))


read_options(sys.argv[1:])

STATELESS = "2026-07-28"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FAULT = {"code": -32601, "message": "no such method"}


def log(entry: object) -> None:
    if options.log:
        with open(options.log, "a") as file:
            file.write(json.dumps(entry) + "\n")


def text(*lines: str) -> Json:
    return {"content": [{"type": "text", "text": line} for line in lines]}


def part(message: Json, key: str) -> Json:
    return message.get(key) or {}


class Server:
    """What the server knows and does, whatever the transport is. `tell` sends a notification."""

    def __init__(self) -> None:
        self.extra: list[str] = json.loads(options.names) + [f"tool{n:03}" for n in range(options.many)]
        self.changed = False
        self.cancelled: list[object] = []
        self.asked: dict[Any, tuple[threading.Event, Json]] = {}
        self.tell: Callable[[Json], None] = lambda message: None

    def tools(self) -> list[Json]:
        names = [name.removeprefix("tool_") for name in dir(self) if name.startswith("tool_")]
        if self.changed:
            names = [*(n for n in names if n != "echo"), "fresh"]
        listed = [
            {"name": n, "description": f"{n}.", "inputSchema": {"type": "object"}} for n in names + self.extra
        ]
        return listed + ODD if options.odd else listed

    def answer(self, message: Json) -> Json | None:
        """The result; None: an unknown method."""
        method, params = message["method"], part(message, "params")
        if method == "initialize" and options.era == "handshake":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "rough", "version": "1"},
                "instructions": "Handle with care.",
            }
        if method == "server/discover" and options.era == "stateless":
            return self.stateless({"supportedVersions": [STATELESS], "capabilities": {"tools": {}}})
        if method == "ping":
            return {}
        if method == "tools/list":
            return self.page(params.get("cursor"))
        if method == "tools/call":
            name = params["name"]
            handler = getattr(self, f"tool_{name}", None)
            log({"executed": name})
            result = handler(part(params, "arguments"), params) if handler else text(f"{name} ran")
            return self.stateless(result)
        return None

    def stateless(self, result: Json) -> Json:
        if options.era != "stateless" or "error" in result:
            return result
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}

    def page(self, cursor: str | None) -> Json:
        tools, at = self.tools(), int(cursor or 0)
        if options.same_cursor:
            return {"tools": tools, "nextCursor": "7"}
        size = -(-len(tools) // options.pages)
        result: Json = {"tools": tools[at * size : (at + 1) * size]}
        if at + 1 < options.pages:
            result["nextCursor"] = str(at + 1)
        return self.stateless(result)

    # ---- tools

    def tool_echo(self, arguments: Json, params: Json) -> Json:
        return text(str(arguments.get("s", "")))

    def tool_env(self, arguments: Json, params: Json) -> Json:
        return text(json.dumps(dict(os.environ)))

    def tool_pid(self, arguments: Json, params: Json) -> Json:
        return text(str(os.getpid()))

    def tool_sleep(self, arguments: Json, params: Json) -> Json:
        time.sleep(arguments["seconds"])
        return text("slept")

    def tool_never(self, arguments: Json, params: Json) -> Json:
        threading.Event().wait()
        return {}

    def tool_cancelled(self, arguments: Json, params: Json) -> Json:
        return text(json.dumps(self.cancelled))

    def tool_die(self, arguments: Json, params: Json) -> Json:
        print("my last words", file=sys.stderr, flush=True)
        os._exit(arguments.get("status", 3))

    def tool_stop(self, arguments: Json, params: Json) -> Json:
        os.kill(os.getpid(), signal.SIGSTOP)
        return text("went on")

    def tool_steps(self, arguments: Json, params: Json) -> Json:
        """Report progress `count` times, every `pause` seconds."""
        token = part(params, "_meta").get("progressToken")
        for step in range(arguments["count"]):
            time.sleep(arguments["pause"])
            body = {
                "progressToken": token,
                "progress": step + 1,
                "total": arguments["count"],
                "message": "step",
            }
            self.tell({"method": "notifications/progress", "params": body})
        return text("done")

    def tool_mixed(self, arguments: Json, params: Json) -> Json:
        link = {"type": "resource_link", "uri": "file:///r/q3.csv", "name": "q3.csv", "mimeType": "text/csv"}
        note = {
            "type": "resource",
            "resource": {"uri": "memo://1", "mimeType": "text/plain", "text": "a note"},
        }
        blob = {
            "type": "resource",
            "resource": {"uri": "memo://a/b.pdf", "mimeType": "application/pdf", "blob": "JVBERi0x"},
        }
        picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
        sound = {"type": "audio", "data": "QUI=", "mimeType": "audio/wav"}
        return {"content": [{"type": "text", "text": "first"}, picture, link, sound, note, blob]}

    def tool_result(self, arguments: Json, params: Json) -> Json:
        """Whatever the arguments are, as the result."""
        return arguments

    def tool_large(self, arguments: Json, params: Json) -> Json:
        return text("x" * arguments["size"])

    def tool_change(self, arguments: Json, params: Json) -> Json:
        self.changed = True
        for _ in range(5):
            self.tell({"method": "notifications/tools/list_changed"})
        return text("changed")

    def tool_ask(self, arguments: Json, params: Json) -> Json:
        """Ask for a city with an elicitation."""
        form: Json = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        form["properties"].update(arguments.get("more", {}))
        ask = {"message": "Which city?", "requestedSchema": form}
        if "url" in arguments:
            ask = {"mode": "url", "message": "Log in", "url": arguments["url"], "elicitationId": "e1"}
        if options.era == "stateless":
            state = json.loads(params.get("requestState") or "[]")
            given = params.get("inputResponses")
            said = [*state, given] if given else state
            if len(said) < arguments.get("rounds", 1):
                request = {"method": "elicitation/create", "params": {"mode": "form", **ask}}
                asked = dict.fromkeys(arguments.get("keys", ["q"]), request)
                return {
                    "resultType": "input_required",
                    "inputRequests": asked,
                    "requestState": json.dumps(said),
                }
            return text(json.dumps(said if {"keys", "rounds"} & arguments.keys() else said[0]["q"]))
        key = os.urandom(16).hex()
        self.asked[key] = (threading.Event(), {})
        self.tell({"id": key, "method": "elicitation/create", "params": ask})
        self.asked[key][0].wait()
        return text(json.dumps(self.asked.pop(key)[1]))

    # ---- what comes without an answer

    def note(self, message: Json) -> None:
        if message.get("method") == "notifications/cancelled":
            self.cancelled.append(message["params"]["requestId"])
        elif message.get("id") in self.asked:
            event, result = self.asked[message["id"]]
            result.update(message.get("result") or {"error": message.get("error")})
            event.set()


ODD: list[Json] = [
    {"name": "bare"},
    {"name": "typeless", "inputSchema": {"properties": {"a": {"type": "string"}}}},
    {"name": "hinted", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": "yes"}, "icons": 5},
    {"name": "scalar", "inputSchema": {"type": "string"}},
    {
        "name": "described",
        "inputSchema": {"type": "object"},
        "description": 5,
        "outputSchema": {"type": "array"},
    },
    {"name": "background", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
    {"name": "bare"},
    {"description": "no name"},
]


def reply(server: Server, message: Json) -> Json | None:
    result = server.answer(message)
    head = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        return None if options.silent else {**head, "error": FAULT}
    return {**head, **({"error": result["error"]} if "error" in result else {"result": result})}


def stdio(server: Server) -> None:
    lock = threading.Lock()

    def put(message: Json | str) -> None:
        line = message if isinstance(message, str) else json.dumps(message)
        with lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def serve(message: Json) -> None:
        answer = reply(server, message)
        if answer is not None and message["id"] not in server.cancelled:
            put(answer)

    server.tell = lambda message: put({"jsonrpc": "2.0", **message})
    if options.banner:
        put("Welcome!\n{not json\n[1, 2]")
    sys.stderr.write(("e" * 1023 + "\n") * options.stderr_kb)
    sys.stderr.flush()
    for line in sys.stdin:
        message = json.loads(line)
        log(message)
        if options.hang:
            continue
        if "method" not in message or "id" not in message:
            server.note(message)
        elif message["method"] == "tools/call":
            threading.Thread(target=serve, args=(message,), daemon=True).start()
        else:
            if options.early_change and message["method"] == "initialize":
                server.tell({"method": "notifications/tools/list_changed"})
            serve(message)
            if options.brief and message["method"] == "tools/list":
                threading.Timer(0.05, os._exit, [6]).start()
    while options.deaf:
        time.sleep(60)


def main() -> None:
    if options.exit >= 0:
        print("I will not start", file=sys.stderr, flush=True)
        sys.exit(options.exit)
    if options.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.child:
        deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        import subprocess

        child = subprocess.Popen([sys.executable, "-c", deaf], stdin=subprocess.DEVNULL)
        log({"child": child.pid})
    log({"pid": os.getpid()})
    time.sleep(options.slow_start)
    server = Server()
    if options.http < 0:
        stdio(server)
        return
    server.extra += ["forget", "status", "redirect", "cut"]
    # loaded when it is asked for, because it takes as long as all the rest
    from importlib import import_module

    import_module("rough_http").serve(options.http, server, sys.modules[__name__])


if __name__ == "__main__":
    main()
