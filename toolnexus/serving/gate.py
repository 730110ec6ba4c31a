"""The gate before everything that is served over HTTP: who may come in, with how much, how many at once."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from toolnexus.serving.load import TICKET, Load, Ticket
from toolnexus.serving.options import Limits
from toolnexus.serving.trace import within_trace

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATIENCE = 30.0
"""Seconds that a request may take to arrive, and that an answer may wait to be taken."""
READ_ON = 1 << 20
"""Bytes beyond the most that are still read, and dropped."""
GRACE = 1.0
"""How long a response may go on once everything is stopped."""


@dataclass(frozen=True, slots=True)
class Door:
    """One protocol behind the gate."""

    path: str
    """Where it begins; `""` for everything that has no other door."""
    token: str | None
    starts: Callable[[str, Any], bool]
    """Whether a POST to a path with a body begins a run or a call, for which there must be room."""
    open_paths: tuple[str, ...] = ()
    """What anybody may read."""


class _Refused(Exception):
    def __init__(self, status: int, why: str, **headers: str) -> None:
        super().__init__(why)
        self.status = status
        self.headers = headers


class _Left(Exception):
    """The caller is gone before the request was whole: nothing begins, and nobody is told."""


class Gate:
    """ASGI middleware. A request that is refused never reaches what it asked for."""

    def __init__(
        self, app: ASGIApp, doors: Sequence[Door], load: Load, limits: Limits, hosts: Sequence[str]
    ) -> None:
        self._app = app
        self._doors = doors
        self._load = load
        self._limits = limits
        self._hosts = hosts
        self._requests: set[asyncio.Task[None]] = set()
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        response = _Response(send)
        try:
            door, path = self._admitted(scope)
            body, given = await self._body(scope, receive)
            ticket = self._ticket(door, scope, path, body)
        except _Refused as refused:
            return await response.refuse(refused)
        except _Left:
            return None
        if given is not None:
            receive = _replayed(given, receive)
        scope[TICKET] = ticket
        with within_trace(scope["headers"]):
            work = asyncio.ensure_future(self._app(scope, receive, response.send))
        self._requests.add(work)
        try:
            with ticket.held() if ticket is not None else nullcontext():
                await asyncio.wait([work])
        finally:
            self._requests.discard(work)
            work.cancel()
            if ticket is not None:
                ticket.leave()
        if work.cancelled():
            await response.end()
        else:
            work.result()

    def close(self) -> None:
        """Refuse whatever comes from now on."""
        self._closed = True

    async def drained(self) -> None:
        """Wait a moment for the responses that are on their way, then end them."""
        left = [task for task in self._requests if task is not asyncio.current_task()]
        if left:
            _, left = await asyncio.wait(left, timeout=GRACE)
            for task in left:
                task.cancel()

    def _admitted(self, scope: Scope) -> tuple[Door, str]:
        """The door and the path of a request whose headers are right."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        path = _path(scope)
        door = next(d for d in self._doors if path == d.path or path.startswith(d.path + "/") or not d.path)
        self._check_origin(headers)
        if self._closed:
            raise _Refused(503, "the server is stopping", **{"retry-after": "5"})
        if door.token is not None and not (path in door.open_paths and scope["method"] in ("GET", "HEAD")):
            _check_token(door.token, headers.get(b"authorization"))
        return door, path

    def _check_origin(self, headers: dict[bytes, str]) -> None:
        """A page of a browser may have a name resolve to this machine: it is known by Host and Origin."""
        host, origin = _name(headers.get(b"host", "")), headers.get(b"origin")
        if "*" in self._hosts:
            allowed = (host,)
        elif host in self._hosts:
            allowed = self._hosts
        else:
            raise _Refused(421, f"the host {host[:100]!r} is not served here (allowed_hosts)")
        if origin is not None and _name(origin.partition("://")[2]) not in allowed:
            raise _Refused(403, f"the origin {origin[:100]!r} may not call this server (allowed_hosts)")

    async def _body(self, scope: Scope, receive: Receive) -> tuple[bytes, Message | None]:
        """The body of a request, and what to hand on in its place."""
        if scope["method"] in ("GET", "HEAD", "DELETE", "OPTIONS"):
            return b"", None
        most = self._limits.max_body
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        chunks, size, too_big = list[bytes](), 0, declared.isdigit() and int(declared) > most
        try:
            async with asyncio.timeout(min(PATIENCE, self._limits.deadline)):
                # what is too big is read on for a while: closed at once, many a sender never sees why
                while size <= most + READ_ON:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise _Left
                    chunk = message.get("body", b"")
                    size += len(chunk)
                    too_big = too_big or size > most
                    if not too_big:
                        chunks.append(chunk)
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            raise _Refused(408, "the request took too long to arrive", connection="close") from None
        if too_big:
            raise _Refused(413, f"a request may have {most:,} bytes", connection="close")
        body = b"".join(chunks)
        return body, {"type": "http.request", "body": body, "more_body": False}

    def _ticket(self, door: Door, scope: Scope, path: str, body: bytes) -> Ticket | None:
        """A place for what begins a run or a call; None for the rest, which needs none."""
        if scope["method"] != "POST" or not door.starts(path, _json(body)):
            return None
        ticket = self._load.claim()
        if ticket is None:
            why = f"{self._load.most} runs and calls are under way, which is the most; try again"
            raise _Refused(503, why, **{"retry-after": "1"})
        return ticket


class _Response:
    """What goes back: whatever happens, it has one beginning and one end."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = self._ended = False

    async def send(self, message: Message) -> None:
        self._begun = True
        self._ended = message["type"] == "http.response.body" and not message.get("more_body")
        await self._send(message)

    async def refuse(self, refused: _Refused) -> None:
        body = json.dumps({"error": str(refused)}).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body)), **refused.headers}
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": refused.status, "headers": encoded})
        await self.send({"type": "http.response.body", "body": body})

    async def end(self) -> None:
        """End what was cut off."""
        if not self._begun:
            await self.refuse(_Refused(503, "the server is stopping", **{"retry-after": "5"}))
        elif not self._ended:
            await self.send({"type": "http.response.body", "body": b""})


def _replayed(first: Message, receive: Receive) -> Receive:
    waiting = [first]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def _check_token(token: str, header: str | None) -> None:
    scheme, _, given = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not given:
        raise _Refused(401, "a token is needed: Authorization: Bearer …", **{"www-authenticate": "Bearer"})
    if not hmac.compare_digest(given.strip().encode("latin-1"), token.encode()):
        challenge = 'Bearer error="invalid_token"'
        raise _Refused(401, "the token is not the right one", **{"www-authenticate": challenge})


def _path(scope: Scope) -> str:
    path, root = cast("str", scope["path"]), cast("str", scope.get("root_path", ""))
    return path.removeprefix(root) if root and path.startswith(root + "/") else path


def _name(host: str) -> str:
    """A host without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()


def _json(body: bytes) -> Any:
    """What a body says; None for what is no JSON, which whoever reads it refuses.

    Raises `_Refused` for what reads as JSON and cannot be written as such, or is no text: kept in a task, it
    would spoil every list of tasks.
    """
    try:
        text = body.decode(json.detect_encoding(body))
    except UnicodeDecodeError:
        raise _Refused(400, "the body is no text in UTF-8") from None
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        return None
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise _Refused(400, "the body holds half of a surrogate pair, which is no text") from None
    return value


def _finite(number: str) -> float:
    value = float(number)
    if not isfinite(value):
        raise _Refused(400, f"the body holds {number[:20]!r}, which is no number of JSON")
    return value
