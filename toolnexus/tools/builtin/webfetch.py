"""The builtin `webfetch`."""

from __future__ import annotations

import base64
from typing import Any

from toolnexus.core.media import START, image_kind
from toolnexus.core.messages import MediaPart
from toolnexus.core.tools import ToolResult
from toolnexus.errors import ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.tools.builtin.bounded import Clock, in_time
from toolnexus.tools.builtin.content import decode, is_html
from toolnexus.tools.builtin.fetch import Page, fetch
from toolnexus.tools.builtin.html_text import html_text
from toolnexus.tools.builtin.loader import definition
from toolnexus.tools.builtin.options import OPTIONS

_LIMITS = definition("webfetch").limits
_ACCEPT = {
    "markdown": "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5",
    "text": "text/plain, text/html;q=0.9, application/xhtml+xml;q=0.9, */*;q=0.5",
    "html": "text/html, application/xhtml+xml, */*;q=0.5",
}


async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    """The content of a page; a bad status is an error with what the server said."""
    shape = str(arguments.get("format") or "markdown")
    asked: float = arguments.get("timeout") or _LIMITS["defaultTimeoutSeconds"]
    seconds = min(asked, _LIMITS["maxTimeoutSeconds"])
    options = ctx.get(OPTIONS)
    allow = options.webfetch_allow if options is not None else ()
    page = await fetch(str(arguments["url"]), accept=_ACCEPT[shape], seconds=seconds, allow=allow)
    metadata = {"status": page.status, "url": page.url, "contentType": page.content_type}
    good = 200 <= page.status < 300
    if good and page.kind == "image":
        return ToolResult(output=_told(page), parts=(_image(page),), metadata=metadata)
    if good and page.kind == "binary":
        raise ToolError(f"{_told(page)}: a binary file; only texts and images can be fetched")
    clock = Clock(_LIMITS["convertSeconds"], "the page is hard to convert: ask for format 'html'")
    text = await in_time(clock, lambda: _text(page, shape, clock)) if page.kind == "text" else ""
    if not good:
        text = _error(page.status, text)
    elif not text:
        text = "[the page is empty]"
    if note := _note(page, seconds):
        text = f"{text}\n{note}"
    cut_off = page.ending in ("time", "broken")
    return ToolResult(output=text, is_error=cut_off or not good, metadata=metadata)


def _text(page: Page, shape: str, clock: Clock) -> str:
    text = decode(bytes(page.body), page.charset, whole=page.ending == "whole")
    if shape == "html" or not is_html(page.content_type, bytes(page.body[:1024])):
        return text
    return html_text(text, page.url, clock, marked=shape == "markdown")


def _image(page: Page) -> MediaPart:
    if page.ending == "size":
        raise ToolError(f"the image is larger than {_LIMITS['maxBodyBytes']} bytes")
    if page.ending != "whole":
        raise ToolError("the image did not come whole; try again, perhaps with a larger timeout")
    mime = image_kind(bytes(page.body[:START]))
    return MediaPart(mime or page.content_type, data=base64.b64encode(page.body).decode("ascii"))


def _told(page: Page) -> str:
    """A file that is no text, as a reader wants it named."""
    mime = image_kind(bytes(page.body[:START])) or page.content_type or "no declared type"
    size = len(page.body) if page.ending == "whole" else page.size
    return f"{page.url}: {mime}, {'unknown size' if size is None else f'{size} bytes'}"


def _error(status: int, text: str) -> str:
    most = _LIMITS["maxErrorCharacters"]
    cut = "\n[the rest of the answer is left out]" if len(text) > most else ""
    return f"HTTP {status}\n{text[:most]}{cut}".rstrip("\n")


def _note(page: Page, seconds: float) -> str:
    if page.ending == "size":
        return f"[cut after {_LIMITS['maxBodyBytes']} bytes: the page goes on]"
    if page.ending == "time":
        return f"[stopped after {seconds:g} s: the page is not complete]"
    if page.ending == "broken":
        return "[the connection broke off: the page is not complete]"
    return ""
