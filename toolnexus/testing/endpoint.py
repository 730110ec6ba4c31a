"""A real HTTP server on this machine that speaks both styles and answers from a script.

`python -m toolnexus.testing.endpoint --script s.json` serves one from the command line.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, cast
from urllib.parse import urlsplit

from aiohttp import web

from toolnexus.errors import ConfigError
from toolnexus.testing.turns import (
    Turn,
    anthropic_events,
    anthropic_reply,
    media_reply,
    openai_events,
    openai_reply,
)

AnyTurn = Turn | str | Mapping[str, Any]
Reply = Callable[[dict[str, Any]], AnyTurn | Awaitable[AnyTurn]]
Script = Mapping[str, Sequence[AnyTurn]] | Sequence[AnyTurn] | Reply


@dataclass(slots=True, kw_only=True)
class Seen:
    """A request that reached the endpoint."""

    path: str
    model: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: dict[str, Any]
    raw: bytes
    time: float
    """Seconds on the monotonic clock."""
    peer: tuple[str, int]
    """Address of the connection: equal for requests over one connection."""
    gone: bool = False
    """Whether the client closed the connection before it had its answer."""


class ScriptedEndpoint:
    """Answers OpenAI chat completions and Anthropic messages, streamed or not, on the loopback; images,
    speech, transcripts and vectors at the addresses of the OpenAI style, too.

    `script` is a list of turns (each a `Turn`, its mapping, or a text); a mapping from model name to its
    own list (`"*"` for all others), so that parallel runs do not take each other's; or
    `reply(body) -> turn`, plain or async. A list that has run out answers status 400, or its last turn
    again with `repeat_last`.

    Use it as `async with`, or as plain `with`, which serves from a thread of its own. `url` is the
    `base_url` for either style.
    """

    def __init__(self, script: Script, *, repeat_last: bool = False, port: int = 0) -> None:
        self._reply = script if callable(script) else None
        queues = {} if callable(script) else script if isinstance(script, Mapping) else {"*": script}
        self._queues = {model: _turns(model, turns) for model, turns in queues.items()}
        self._given: dict[str, int] = {}
        self._repeat_last = repeat_last
        self._port = port
        self._runner: web.AppRunner | None = None
        self._thread: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None
        self._changed = asyncio.Condition()
        self._in_flight = 0
        self.requests: list[Seen] = []
        """Every request, in order of arrival."""
        self.usage_total = 0
        """All tokens that the answers so far reported."""
        self.max_in_flight = 0
        """How many requests were open at once, at most."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def connections(self) -> int:
        """How many connections the clients made."""
        return len({seen.peer for seen in self.requests})

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition()` holds; looked at after each arrival, answer and departure."""
        async with self._changed:
            await self._changed.wait_for(condition)

    async def __aenter__(self) -> ScriptedEndpoint:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        try:
            await site.start()
        except (OSError, OverflowError) as error:  # taken, forbidden, no port
            await self.__aexit__()
            code = getattr(error, "errno", None)
            why = os.strerror(code) if code else error
            raise ConfigError(f"cannot listen on port {self._port}: {why}") from None
        self._port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def __enter__(self) -> ScriptedEndpoint:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="scripted-endpoint", daemon=True)
        thread.start()
        self._thread = (loop, thread)
        try:
            asyncio.run_coroutine_threadsafe(self.__aenter__(), loop).result(timeout=10)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None:
            return
        loop, thread = self._thread
        self._thread = None
        asyncio.run_coroutine_threadsafe(self.__aexit__(), loop).result(timeout=10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)
        loop.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        multipart = request.content_type == "multipart/form-data"
        body: Any = _form(raw, request.headers["content-type"]) if multipart else json.loads(raw or b"{}")
        peer = cast(
            tuple[str, int], request.transport.get_extra_info("peername") if request.transport else ("", 0)
        )
        seen = Seen(
            path=request.path,
            model=str(body.get("model", "")),
            headers={k.lower(): v for k, v in request.headers.items()},
            body=body,
            raw=raw,
            time=time.monotonic(),
            peer=peer,
        )
        self.requests.append(seen)
        self._in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self._in_flight)
        await self._notify()
        try:
            return await self._answer(request, seen, await self._turn(seen))
        except (asyncio.CancelledError, ConnectionError):
            seen.gone = True
            raise
        finally:
            self._in_flight -= 1
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _turn(self, seen: Seen) -> Turn:
        if self._reply is not None:
            turn = self._reply(seen.body)
            return Turn.of(await turn if inspect.isawaitable(turn) else turn)
        key = seen.model if seen.model in self._queues else "*"
        turns = self._queues.get(key, [])
        number = self._given.get(key, 0)
        self._given[key] = number + 1
        if number < len(turns):
            return turns[number]
        if turns and self._repeat_last:
            return turns[-1]
        message = f"the script of model {seen.model!r} has only {len(turns)} turns"
        return Turn(status=400, body=json.dumps({"error": {"message": message}}))

    async def _answer(self, request: web.Request, seen: Seen, turn: Turn) -> web.StreamResponse:
        if turn.delay:
            await asyncio.sleep(turn.delay)
        if turn.hang:
            await asyncio.Event().wait()
        self.usage_total += turn.tokens
        anthropic = seen.path.rstrip("/").endswith("/messages")
        if turn.body is not None or turn.status != 200:
            text = turn.body if turn.body is not None else '{"error":{"message":"scripted"}}'
            headers = {"content-type": "application/json", **turn.headers}
            return web.Response(status=turn.status, body=text.encode(), headers=headers)
        if (media := media_reply(turn, seen.path)) is not None and turn.drop_after is None:
            content, kind = media
            return web.Response(body=content, headers={"content-type": kind, **turn.headers})
        if seen.body.get("stream") or turn.sse is not None:
            return await self._stream(request, turn, _lines(turn, seen.model, anthropic))
        if turn.drop_after is not None:
            return _drop(request)
        reply = (anthropic_reply if anthropic else openai_reply)(turn, seen.model)
        return web.Response(
            body=json.dumps(reply).encode(), headers={"content-type": "application/json", **turn.headers}
        )

    async def _stream(self, request: web.Request, turn: Turn, events: Iterator[str]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream", **turn.headers})
        await response.prepare(request)
        for number, event in enumerate(events):
            if turn.drop_after is not None and number >= turn.drop_after:
                return _drop(request)
            data = event.encode()
            size = turn.split or len(data)
            for start in range(0, len(data), size):
                await response.write(data[start : start + size])
                if turn.split:
                    await asyncio.sleep(0)
        await response.write_eof()
        return response


def _form(raw: bytes, kind: str) -> dict[str, Any]:
    """The fields of a form; of a file its name, kind and size in bytes."""
    from email import message_from_bytes

    out: dict[str, Any] = {}
    for part in message_from_bytes(b"content-type: " + kind.encode() + b"\r\n\r\n" + raw).walk():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(content, bytes):
            continue
        file = part.get_filename()
        out[name] = content.decode() if file is None else [file, part.get_content_type(), len(content)]
    return out


def _turns(model: str, given: Any) -> list[Turn]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        of = "the script" if model == "*" else f"the script of model {model!r}"
        raise ConfigError(f"{of} must be a list of turns, not {type(given).__name__}; write [{given!r}]")
    return [Turn.of(turn) for turn in cast(Sequence[AnyTurn], given)]


def _drop(request: web.Request) -> web.Response:
    """Close the connection in the middle of the answer."""
    if request.transport is not None:
        request.transport.close()
    return web.Response()


def _lines(turn: Turn, model: str, anthropic: bool) -> Iterator[str]:
    if turn.sse is not None:
        yield from turn.sse
    elif anthropic:
        for event in anthropic_events(turn, model):
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
    else:
        for event in openai_events(turn, model):
            yield f"data: {json.dumps(event)}\n\n"
        yield "data: [DONE]\n\n"


async def _serve(endpoint: ScriptedEndpoint) -> None:
    async with endpoint:
        print(f"PORT={urlsplit(endpoint.url).port}", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Serve a script file until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m toolnexus.testing.endpoint", description=__doc__)
    parser.add_argument("--script", type=Path, required=True, help="JSON: turns, or model name to turns")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--repeat-last", action="store_true", help="a used up script repeats its last turn")
    given = parser.parse_args()
    try:
        script = json.loads(given.script.read_text(encoding="utf-8"))
        endpoint = ScriptedEndpoint(script, port=given.port, repeat_last=given.repeat_last)
    except OSError as error:
        parser.exit(2, f"{given.script}: {error.strerror}\n")
    except ConfigError as error:
        parser.exit(2, f"{given.script}: {error}\n")
    except ValueError as error:
        parser.exit(2, f"{given.script}: no JSON: {error}\n")
    try:
        asyncio.run(_serve(endpoint))
    except ConfigError as error:  # of the port
        parser.exit(2, f"{error}\n")
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
