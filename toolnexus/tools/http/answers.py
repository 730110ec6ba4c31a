"""What a model reads of an answer: text, JSON, media beside a note; a bad status is an error."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from functools import partial
from typing import Literal, get_args

from toolnexus.core.media import START, sniff
from toolnexus.core.messages import MediaPart
from toolnexus.core.tools import ToolResult
from toolnexus.core.values import frozen
from toolnexus.runtime.threads import run_in_thread
from toolnexus.tools.builtin.content import SNIFF_BYTES, decode, kind_of

ResultMode = Literal["text", "json", "status+text"]
MODES: tuple[ResultMode, ...] = get_args(ResultMode)

MAX_ERROR = 4_000
"""Characters of a body that an error shows."""
_LARGE = 256 << 10
"""Bytes from which on a body is looked at in a thread."""
_CHARSET = re.compile(r"""\bcharset\s*=\s*["']?([^\s"';]+)""", re.IGNORECASE)


@frozen(kw_only=True)
class Answer:
    """What a server said."""

    status: int
    reason: str
    content_type: str
    """With its parameters; `""` when the server names none."""
    body: bytes
    cut: bool
    """Whether the body goes on."""

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300

    @property
    def mime(self) -> str:
        """The type in lower case, without parameters."""
        return self.content_type.partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        found = _CHARSET.search(self.content_type.partition(";")[2])
        return found[1] if found else None

    @property
    def media(self) -> str | None:
        """The type of a body that is no text; None for a text."""
        if (known := sniff(self.body[:START])) is not None:
            return known
        if not self.body or kind_of(self.mime, self.charset, self.body[:SNIFF_BYTES]) == "text":
            return None
        return self.mime or "application/octet-stream"

    @property
    def text(self) -> str:
        return decode(self.body, self.charset, whole=not self.cut)


async def result_of(answer: Answer, mode: ResultMode) -> ToolResult:
    """The result of a call; `metadata` has `status` and `contentType`."""
    if len(answer.body) > _LARGE:
        return await run_in_thread(partial(_result, answer, mode))
    return _result(answer, mode)


def _result(answer: Answer, mode: ResultMode) -> ToolResult:
    metadata = {"status": answer.status, "contentType": answer.mime}
    media = answer.media
    parts: tuple[MediaPart, ...] = ()
    is_error = not answer.is_good
    if is_error:
        output = f"HTTP {answer.status}: {_error_text(answer, media)}"
    elif media is not None:
        output = f"{media}, {len(answer.body)} bytes"
        if answer.cut:
            is_error, output = True, f"{media}: it has more than {len(answer.body)} bytes, which is too many"
        else:
            parts = (MediaPart(media, data=b64encode(answer.body).decode("ascii")),)
    elif mode == "json":
        is_error, output = answer.cut, _json(answer)
    else:
        output = answer.text or ("" if mode == "status+text" else f"[HTTP {answer.status}, no content]")
        if answer.cut:
            output += f"\n[cut after {len(answer.body)} bytes: the answer goes on]"
    if mode == "status+text" and answer.is_good:
        output = f"{answer.status}\n{output}"
    return ToolResult(output=output, is_error=is_error, metadata=metadata, parts=parts)


def _error_text(answer: Answer, media: str | None) -> str:
    if media is not None:
        return f"[{media}, {len(answer.body)} bytes]"
    text = answer.text or answer.reason
    rest = "\n[the rest of the answer is left out]" if answer.cut or len(text) > MAX_ERROR else ""
    return text[:MAX_ERROR] + rest


def _json(answer: Answer) -> str:
    """One JSON value in one line; a text that is none as a JSON string."""
    if answer.cut:
        return f"the answer has more than {len(answer.body)} bytes, so it cannot be read as JSON"
    text = answer.text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
