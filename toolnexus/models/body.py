"""The body of a request on the default wire. Loads aiohttp."""

from __future__ import annotations

from aiohttp import Payload
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict

_HEADERS = CIMultiDict({"content-type": "application/json"})
PIECE = 1 << 18
"""Bytes that are written at once."""


class Body(Payload):
    """JSON that is let go of when it is sent: a run that waits for its model holds its transcript once."""

    _autoclose = True  # nothing is open

    def __init__(self, content: bytes) -> None:
        super().__init__(content, content_type="application/json")
        self._size = len(content)
        self._headers = _HEADERS  # all requests in flight have the same

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        content, self._value = self._value, b""
        for start in range(0, len(content), PIECE):
            await writer.write(content[start : start + PIECE])
