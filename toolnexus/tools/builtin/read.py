"""The builtin `read`."""

from __future__ import annotations

import base64
import codecs
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from toolnexus.core.media import image_kind
from toolnexus.core.messages import MediaPart
from toolnexus.core.tools import ToolResult
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.builtin.bounded import Clock, in_time
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.builtin.paths import open_file, resolve

_LIMITS = definition("read").limits
_REST = 1 << 20


async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    """The text of a file or a window of it; an image as a media part."""
    clock = Clock(_LIMITS["seconds"], "read a smaller part of the file")
    return await in_time(clock, lambda: _read(arguments, ctx, clock))


def _read(arguments: dict[str, Any], ctx: ToolContext, clock: Clock) -> ToolResult:
    path = str(arguments["path"])
    with open_file(resolve(path, ctx, reading=True), path) as file:
        head = file.read(_LIMITS["binarySniffBytes"])
        if mime := image_kind(head):
            return _image(path, mime, head + file.read(_LIMITS["maxImageBytes"]))
        if b"\0" in head:
            raise ToolError(f"{path!r} is a binary file; only text and images can be read")
        file.seek(0)
        return ToolResult(output=_text(file, path, arguments, clock))


def _image(path: str, mime: str, data: bytes) -> ToolResult:
    largest = _LIMITS["maxImageBytes"]
    if len(data) > largest:
        raise ToolError(
            f"{path!r} is an image of more than {largest} bytes; make a smaller copy and read that"
        )
    name = path.replace("\\", "/").rpartition("/")[2]
    part = MediaPart(mime, data=base64.b64encode(data).decode("ascii"), name=name)
    return ToolResult(output=f"{path}: {mime}, {len(data)} bytes", parts=(part,))


def _text(file: BinaryIO, path: str, arguments: dict[str, Any], clock: Clock) -> str:
    first = int(arguments.get("offset") or 1)
    limit = arguments.get("limit")
    last = None if limit is None else first + int(limit) - 1
    window: list[str] = []
    size = number = 0
    for number, line in enumerate(_lines(file, clock), 1):
        if number < first:
            continue
        if number == last:
            window.append(line.removesuffix("\n").removesuffix("\r"))
            break
        window.append(line)
        size += len(line)
        if size > _LIMITS["maxTextCharacters"]:
            window.append(f"[the file goes on: read it with offset={number + 1}]")
            break
    if not window:
        return f"[empty window: {path} has {number} line{'' if number == 1 else 's'}]"
    return "".join(window)


def _lines(file: BinaryIO, clock: Clock) -> Iterator[str]:
    """The lines with their ends, one that is too long cut; a byte order mark is left out."""
    longest = _LIMITS["maxLineBytes"]
    first = True
    while line := file.readline(longest + 2):
        clock.check()
        if first:
            line, first = line.removeprefix(codecs.BOM_UTF8), False
        if len(line) <= longest or line.endswith(b"\n"):
            yield line.decode("utf-8", "replace")
            continue
        size, end = len(line), ""
        while rest := file.read(_REST):
            clock.check()
            at = rest.find(b"\n") + 1
            size += at or len(rest)
            if at:
                file.seek(at - len(rest), os.SEEK_CUR)
                end = "\n"
                break
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(line[:longest])
        yield f"{head} [… line cut, it has {size} bytes]{end}"
