"""Small real files, made here."""

from __future__ import annotations

import base64
import io
import struct
import wave
import zlib
from typing import Any

from tests.models.test_types import accepted
from toolnexus.testing.endpoint import ScriptedEndpoint


def png(width: int = 2, height: int = 2, extra: bytes = b"") -> bytes:
    """A red picture; `extra` stands in a chunk of its own that viewers skip."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + b"\xff\0\0" * width) * height)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    padding = chunk(b"prVt", extra) if extra else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + padding + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def jpeg(width: int = 3, height: int = 2, metadata: int = 0) -> bytes:
    """The head of a JPEG: metadata segments, other markers, a frame header."""
    segments = b""
    while metadata > 0:
        size = min(metadata, 65_000)
        segments += b"\xff\xe1" + struct.pack(">H", size + 2) + b"m" * size
        metadata -= size
    tables = b"\xff\xdb" + struct.pack(">H", 67) + b"\0" * 65 + b"\xff\xc4" + struct.pack(">H", 4) + b"\0\0"
    frame = b"\xff\xff\xc2" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\1\x11\0"
    return b"\xff\xd8\xff\xe0" + struct.pack(">H", 4) + b"\0\0" + segments + tables + frame + b"\xff\xd9"


def gif(width: int = 1, height: int = 1) -> bytes:
    body = b"\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0" + struct.pack("<HH", 1, 1) + b"\0\x02\x02D\x01\0;"
    return b"GIF89a" + struct.pack("<HH", width, height) + body


def webp(chunk: bytes) -> bytes:
    """A WebP whose first chunk is `chunk`."""
    return b"RIFF" + struct.pack("<I", len(chunk) + 4) + b"WEBP" + chunk


def pdf(text: str = "Invoice 17") -> bytes:
    """One page with one line."""
    stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R"
        b"/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream),
    ]
    out, places = b"%PDF-1.4\n", list[int]()
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj%b endobj\n" % (number, body)
    table = b"".join([b"%010d 00000 n \n" % place for place in places])
    return b"%bxref\n0 5\n0000000000 65535 f \n%btrailer<</Size 5/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (
        out,
        table,
        len(out),
    )


def wav() -> bytes:
    """A few milliseconds of silence."""
    target = io.BytesIO()
    with wave.open(target, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8_000)
        sound.writeframes(b"\0\0" * 80)
    return target.getvalue()


MP3 = b"ID3\x04\0\0\0\0\0\0" + b"\xff\xfb\x90\0" + b"\0" * 413


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def fits(endpoint: ScriptedEndpoint) -> None:
    """Every body that reached `endpoint` is one that the official SDK of its style takes."""
    for seen in endpoint.requests:
        style = "anthropic" if seen.path.endswith("/messages") else "openai"
        accepted(style, bool(seen.body.get("stream")), seen.body)


def texts_in(value: Any) -> list[str]:
    """Every text that a model reads in a body: not the places where media stand."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in texts_in(item)]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict) or value.get("type") in ("image", "image_url", "input_audio", "file"):  # pyright: ignore[reportUnknownMemberType]
        return []
    if value.get("type") == "document" and value["source"].get("type") != "text":  # pyright: ignore
        return []
    return [text for item in value.values() for text in texts_in(item)]  # pyright: ignore[reportUnknownVariableType]
