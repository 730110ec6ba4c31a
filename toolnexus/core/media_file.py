"""Media from files."""

from __future__ import annotations

import os
from binascii import b2a_base64

from toolnexus.core.files import read_start, reason
from toolnexus.core.media import (
    IMAGES,
    MAX_FILE,
    START,
    fault,
    is_text,
    kind_of_suffix,
    sniff,
    text_of,
)
from toolnexus.core.media_check import plain_kind, true_kind
from toolnexus.core.options import expect
from toolnexus.errors import ConfigError


def load(path: str | os.PathLike[str], mime_type: str | None) -> tuple[str, str, str]:
    """Kind, base64 content and name of the file at `path`.

    Raises `ConfigError` for what cannot be read and for what no endpoint takes. Never waits for a
    pipe or a device.
    """
    expect("MediaPart.from_file: path", path, (str, os.PathLike), "give the path of a file")
    given: object = os.fspath(path)
    expect("MediaPart.from_file: path", given, str, "give the path as text")
    file = os.path.expanduser(str(given))
    where = f"MediaPart.from_file({given!r})"
    label = plain_kind(mime_type)
    try:
        content = read_start(file, MAX_FILE + 1)
    except OSError as error:
        raise ConfigError(f"{where}: {reason(error)}") from error
    start = content[:START]
    kind = true_kind(label, start) if label else _kind_of(file, content)
    data = b2a_base64(content, newline=False).decode("ascii")
    why = _refusal(kind, content, data)
    if why is not None:
        raise ConfigError(f"{where}: {why}")
    return kind, data, os.path.basename(file)


def _kind_of(file: str, content: bytes) -> str:
    """By content first, then by name; what is text without either is plain text."""
    named, seen = kind_of_suffix(file), sniff(content[:START])
    if named and not is_text(named):
        return true_kind(named, content[:START])
    if seen and not (named and _is_utf8(content)):
        return seen
    return named or ("text/plain" if _is_utf8(content) else "")


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except ValueError:
        return False
    return b"\0" not in content


def _refusal(kind: str, content: bytes, data: str) -> str | None:
    if not content:
        return "the file is empty"
    if not kind:
        return (
            "no endpoint takes such a file; make it a PNG, JPEG, GIF, WebP, PDF, WAV, MP3 or UTF-8 text "
            "(mime_type= tells the kind to a model of your own)"
        )
    if kind not in IMAGES and len(content) > MAX_FILE:
        return f"it has more than {MAX_FILE:,} bytes"
    if is_text(kind) and text_of(kind, data) is None:
        return "its content is no UTF-8 text"
    return fault(kind, data)
