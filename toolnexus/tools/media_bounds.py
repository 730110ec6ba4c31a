"""What media of a result reach a model; the rest lies in files, and a note says where.

A transcript is sent anew in every turn: one part that an endpoint refuses would end the conversation
for ever, and one that is too heavy would slow all that follows.
"""

from __future__ import annotations

from binascii import a2b_base64
from dataclasses import replace

from toolnexus.core.media import IMAGES, MAX_IMAGE, PDF, fault, note, suffix_of_kind, text_of
from toolnexus.core.messages import MediaPart
from toolnexus.core.tools import ToolResult
from toolnexus.runtime.run import Run
from toolnexus.runtime.spill import Spill
from toolnexus.runtime.threads import run_in_thread

MAX_PARTS = 20
"""Media of one result. With more in a request, some endpoints take smaller images only."""
MAX_TOTAL = 2 * MAX_IMAGE
"""Base64 characters of the media of one result."""


async def bounded(result: ToolResult, run: Run, every_kind: bool = False) -> ToolResult:
    """`result` with the media that a model may get.

    Text files become text of the output. Images and PDFs, for another program `every_kind`, stay, up to
    `MAX_PARTS` and `MAX_TOTAL`.
    What no endpoint takes in a result, and what goes beyond, is kept in the client's spill folder:
    the output names the file, `metadata["mediaPaths"]` lists them. Raises nothing but
    `CancelledError`.
    """
    kept: list[MediaPart] = []
    texts = [result.output]
    paths: list[str] = []
    left = MAX_TOTAL
    for part in result.parts:
        data = part.data or ""
        text = text_of(part.mime_type, data)
        if text is not None:
            texts.append(f"File {part.name!r}:\n{text}" if part.name else text)
            continue
        why = _refusal(part, data, len(kept), left, every_kind)
        if why is None:
            kept.append(part)
            left -= len(data)
            continue
        if data:
            path = await _put_aside(part, data, run)
            why = f"{why}; {f'the file is {path}' if path else 'it could not be kept in a file'}"
            paths += [path] if path else []
        texts.append(note(part.mime_type, part.name, part.url, f"not shown: {why}"))
    if tuple(kept) == result.parts:
        return result
    metadata = {**result.metadata, "mediaPaths": paths} if paths else result.metadata
    output = "\n".join([text for text in texts if text])
    return replace(result, output=output, parts=tuple(kept), metadata=metadata)


def _refusal(part: MediaPart, data: str, count: int, left: int, every_kind: bool) -> str | None:
    """Why a model does not get `part`; None when it does."""
    if not every_kind and part.mime_type not in IMAGES and part.mime_type != PDF:
        return "no endpoint takes this kind from a tool"
    if data and (why := fault(part.mime_type, data)):
        return why
    if count >= MAX_PARTS:
        return f"only the first {MAX_PARTS} media of a result are"
    if len(data) > left:
        return f"all media of a result may have {MAX_TOTAL // 4 * 3:,} bytes together"
    return None


async def _put_aside(part: MediaPart, data: str, run: Run) -> str | None:
    """The path of a file with the content; None when there is none."""
    try:
        return await run_in_thread(_keep, run.spill, part.mime_type, data)
    except OSError:
        return None


def _keep(spill: Spill, kind: str, data: str) -> str:
    return str(spill.write(a2b_base64(data), suffix_of_kind(kind)))
