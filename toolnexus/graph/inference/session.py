"""Speech that comes in pieces. No endpoint listens while it comes: all of it is written down at its end."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from toolnexus.core.messages import MediaPart
from toolnexus.graph.errors import GraphRunError
from toolnexus.graph.inference.intents import AudioFormat
from toolnexus.graph.inference.request import AudioChunk

MOST_BYTES = 25_000_000
"""How much sound one session takes."""
_KINDS = {"mp3": "mpeg", "opus": "ogg", "pcm": "wav"}

Transcribe = Callable[[MediaPart], Awaitable[dict[str, Any]]]


class Session:
    """Takes the pieces, and gives one event at the end of the input.

    Every failure is a `GraphRunError`: of a wrong use (`validation`), and `aborted` after `interrupt`.
    """

    def __init__(self, format: AudioFormat, transcribe: Transcribe) -> None:
        self._format = format
        self._transcribe = transcribe
        self._sound = bytearray()
        self._last: int | None = None
        self._state = "open"
        """`open`, `finished`, `told` (its one event was given), `ended`, `interrupted` or `closed`."""
        self._result: dict[str, Any] | None = None

    def send(self, chunk: AudioChunk) -> None:
        """Take one piece."""
        if self._state != "open":
            raise _wrong(f"the session takes no more sound: it is {self._state}")
        if chunk.sequence is not None:
            if self._last is not None and chunk.sequence <= self._last:
                raise _wrong(f"the sequence {chunk.sequence} does not come after {self._last}")
            self._last = chunk.sequence
        try:
            piece = base64.b64decode(chunk.data, validate=True)
        except binascii.Error:
            raise _wrong("data is no base64") from None
        if len(self._sound) + len(piece) > MOST_BYTES:
            raise _wrong(f"the session takes {MOST_BYTES} bytes of sound, not more")
        self._sound += piece

    def finish(self) -> None:
        """No more sound comes."""
        if self._state not in ("open", "finished"):
            raise _wrong(f"the session cannot be finished: it is {self._state}")
        self._state = "finished"

    async def next(self) -> dict[str, Any] | None:
        """`{type: final, text, …}`, then None. It ends the input: there is nothing before its end."""
        self._check()
        if self._state in ("told", "ended"):
            self._state = "ended"
            return None
        self._state = "finished"
        if not self._sound:
            raise _wrong("no sound was sent")
        result = await self._transcribe(self._part())
        self._sound.clear()
        self._check()
        self._result, self._state = result, "told"
        told = {key: value for key, value in result.items() if key not in ("usage", "metadata", "trace")}
        return {"type": "final", **told}

    def result(self) -> dict[str, Any]:
        """The whole transcript, once `next` has given None."""
        self._check()
        if self._state != "ended" or self._result is None:
            raise _wrong("the result is there when next() has given null")
        return self._result

    def interrupt(self) -> None:
        """Give the session up; what is asked of it next fails."""
        if self._state not in ("ended", "closed"):
            self._state = "interrupted"
            self._sound.clear()

    async def close(self) -> None:
        """Leave the session."""
        self._state = "closed"
        self._sound.clear()

    def _check(self) -> None:
        if self._state == "interrupted":
            raise GraphRunError("the session was interrupted", kind="aborted")
        if self._state == "closed":
            raise _wrong("the session is closed")

    def _part(self) -> MediaPart:
        content, encoding = bytes(self._sound), self._format.encoding.lower()
        if encoding == "pcm":
            content = _wav(content, self._format.sample_rate_hz or 16_000, self._format.channels or 1)
        kind = _KINDS.get(encoding, encoding)
        return MediaPart(f"audio/{kind}", data=base64.b64encode(content).decode())


def _wav(samples: bytes, rate: int, channels: int) -> bytes:
    """Samples of 16 bit as a WAV file."""
    frame = 2 * channels
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * frame, frame, 16)
    head = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(samples))
    return b"RIFF" + struct.pack("<I", len(head) + len(samples)) + head + samples


def _wrong(problem: str) -> GraphRunError:
    return GraphRunError(problem, kind="validation")
