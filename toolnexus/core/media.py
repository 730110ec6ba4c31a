"""Kinds of media, and what endpoints take of them.

A kind is a MIME type in lower case without parameters.
"""

from __future__ import annotations

import os
from binascii import a2b_base64

from toolnexus.core.image_size import FIRST_BYTES, image_size

IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
"""The images that endpoints of both styles look at."""
PDF = "application/pdf"

MAX_IMAGE = 5 * 1024 * 1024
"""Base64 characters of one image: the least that a hosted endpoint takes."""
MAX_SIDE = 8_000
"""Pixels of either side of an image."""
MAX_FILE = 20_000_000
"""Bytes of a file that is no image: in base64 it still fits into one request."""

START = 24
"""Bytes that tell the kind of a content."""
_PDF_START = 1_024
"""Bytes in which the header of a PDF may stand."""

_SUFFIXES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": PDF,
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".xml": "application/xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".svg": "image/svg+xml",
}
_OF_KIND = {kind: suffix for suffix, kind in reversed(_SUFFIXES.items())}
_TEXTS = frozenset(
    f"application/{name}"
    for name in ("json", "xml", "yaml", "x-yaml", "toml", "javascript", "sql", "x-sh", "x-ndjson")
)


def sniff(start: bytes) -> str | None:
    """The kind that the first bytes of a content tell; None when they tell none."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start.startswith(b"RIFF"):
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(start[8:12])
    if start.startswith(b"%PDF-"):
        return PDF
    is_frame = len(start) > 1 and start[0] == 0xFF and start[1] & 0xE6 == 0xE2
    if is_frame or (start.startswith(b"ID3") and start[3:4] < b"\x10"):
        return "audio/mpeg"
    return None


def image_kind(start: bytes) -> str | None:
    """Which of `IMAGES` the first bytes of a content tell; None when they tell none."""
    kind = sniff(start)
    return kind if kind in IMAGES else None


def fault(kind: str, data: str) -> str | None:
    """Why no endpoint takes base64 `data` as an image or a PDF; None when nothing is known against it."""
    if kind in IMAGES:
        if image_kind(first_bytes(data, START)) is None:
            return "its content is no PNG, JPEG, GIF or WebP image"
        if len(data) > MAX_IMAGE:
            return f"it has {size_of(data):,} bytes, and endpoints take {MAX_IMAGE // 4 * 3:,} for an image"
        width, height = image_size(first_bytes(data, FIRST_BYTES)) or (0, 0)
        if max(width, height) > MAX_SIDE:
            return f"it has {width} x {height} pixels, and endpoints take {MAX_SIDE:,} on a side"
    elif kind == PDF and b"%PDF-" not in first_bytes(data, _PDF_START):
        return "its content is no PDF"
    return None


def is_text(kind: str) -> bool:
    """Whether contents of this kind are text to a model."""
    return kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml"))


def text_of(kind: str, data: str) -> str | None:
    """The text that base64 `data` of a text kind is; None for other kinds and for what is no UTF-8."""
    if not is_text(kind):
        return None
    try:
        return a2b_base64(data).decode("utf-8-sig")
    except ValueError:
        return None


def note(kind: str, name: str | None, url: str | None, why: str) -> str:
    """A sentence in place of media: a model must never read base64 as text."""
    called = f" {name!r}" if name else ""
    where = f" at {url}" if url else ""
    return f"[{kind}{called}{where}: {why}]"


def kind_of_suffix(path: str) -> str:
    """What the end of a file name tells, `""` when it tells nothing."""
    return _SUFFIXES.get(os.path.splitext(path)[1].lower(), "")


def suffix_of_kind(kind: str) -> str:
    """How the name of a file of this kind ends."""
    return _OF_KIND.get(kind, ".txt" if is_text(kind) else ".bin")


def first_bytes(data: str, count: int) -> bytes:
    """The first `count` bytes, and a few more, of what base64 `data` stands for."""
    try:
        return a2b_base64(data[: (count + 2) // 3 * 4])
    except ValueError:
        return b""


def size_of(data: str) -> int:
    """How many bytes base64 `data` stands for."""
    return len(data) // 4 * 3 - data[-2:].count("=")
