"""How many pixels an image has, read from its first bytes."""

from __future__ import annotations

FIRST_BYTES = 192 * 1024
"""How far to look: the frame header of a JPEG stands behind its metadata."""
_MOST_SEGMENTS = 1_000


def image_size(start: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, JPEG, GIF or WebP that begins with `start`; None when it does not tell."""
    if start[12:16] == b"IHDR":
        return _big(start[16:20]), _big(start[20:24])
    if start.startswith(b"GIF8"):
        return _little(start[6:8]), _little(start[8:10])
    if start[8:12] == b"WEBP":
        return _webp_size(start)
    if start.startswith(b"\xff\xd8"):
        return _jpeg_size(start)
    return None


def _webp_size(start: bytes) -> tuple[int, int] | None:
    match start[12:16]:
        case b"VP8 ":
            return _little(start[26:28]) & 0x3FFF, _little(start[28:30]) & 0x3FFF
        case b"VP8L":
            bits = _little(start[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return _little(start[24:27]) + 1, _little(start[27:30]) + 1
        case _:
            return None


def _jpeg_size(start: bytes) -> tuple[int, int] | None:
    """From the first frame header; the segments before it are skipped by their length."""
    at = 2
    for _ in range(_MOST_SEGMENTS):
        if at + 9 > len(start) or start[at] != 0xFF:
            break
        marker = start[at + 1]
        if marker == 0xFF:  # filler
            at += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:  # a marker that stands alone
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _big(start[at + 7 : at + 9]), _big(start[at + 5 : at + 7])
        else:
            at += 2 + _big(start[at + 2 : at + 4])
    return None


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
