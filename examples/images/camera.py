"""A shelf to look at: pictures of it, drawn here."""

import struct
import zlib

WIDTH, HEIGHT, BOX = 360, 120, 50
WHITE, BROWN, RED = b"\xff\xff\xff", b"\x7a\x4a\x20", b"\xd0\x20\x20"


def picture(boxes: int) -> bytes:
    """A PNG of a brown board with so many red boxes on it."""
    rows: list[bytes] = []
    for y in range(HEIGHT):
        row = [BROWN if y >= HEIGHT - 10 else WHITE] * WIDTH
        if HEIGHT - 10 - BOX <= y < HEIGHT - 10:
            for n in range(boxes):
                left = 15 + n * (BOX + 15)
                row[left : left + BOX] = [RED] * BOX
        rows.append(b"\0" + b"".join(row))
    size = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(rows), 9)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", size) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
