"""Server-sent events, split on bytes."""

from __future__ import annotations

from json import JSONDecoder
from typing import Any, cast

from toolnexus.errors import ModelResponseError

DONE = b"[DONE]"
_decode = JSONDecoder().raw_decode


class EventSplitter:
    """Gives the `data` of each event as soon as it is complete.

    Takes LF, CRLF and CR line ends, joins data lines, leaves out comments and all other fields.
    """

    __slots__ = ("_pieces", "_started")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._started = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that `chunk` completes."""
        if not self._started:
            self._started = True
            chunk = chunk.removeprefix(b"\xef\xbb\xbf")
        if b"\n" not in chunk and b"\r" not in chunk:
            self._pieces.append(chunk)  # a long event in many chunks: no look at what came before
            return []
        if self._pieces:
            self._pieces.append(chunk)
            chunk = b"".join(self._pieces)
            self._pieces.clear()
        held = b""
        if b"\r" in chunk:
            if chunk.endswith(b"\r"):  # its \n may come with the next chunk
                chunk, held = chunk[:-1], b"\r"
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *blocks, rest = chunk.split(b"\n\n")
        if rest or held:
            self._pieces.append(rest + held)
        return [data for block in blocks if (data := _data(block)) is not None]

    def end(self) -> list[bytes]:
        """What is left when the stream ends without the last blank line."""
        rest = b"".join(self._pieces).replace(b"\r", b"\n")
        self._pieces.clear()
        data = _data(rest)
        return [] if data is None else [data]


def _data(block: bytes) -> bytes | None:
    if block.startswith(b"data: ") and b"\n" not in block:
        return block[6:]
    lines = [
        line[6:] if line.startswith(b"data: ") else line[5:]
        for line in block.split(b"\n")
        if line.startswith(b"data:")
    ]
    return b"\n".join(lines) if lines else None


def parse_event(data: bytes, host: str) -> dict[str, Any] | None:
    """The JSON object of one event; None for anything else that is JSON.

    Raises `ModelResponseError` when it is no JSON.
    """
    try:
        event, _ = _decode(data.decode().strip())
    except (ValueError, RecursionError) as error:
        raise ModelResponseError(f"{host} sent an event that is no JSON") from error
    return cast("dict[str, Any]", event) if isinstance(event, dict) else None
