"""What a media part may be made of, checked where it is made.

Where the content says what it is, it is believed before any label: endpoints refuse a JPEG that is
called a PNG, and a conversation with such a part in it would fail for ever.
"""

from __future__ import annotations

import re

from toolnexus.core.media import START, first_bytes, kind_of_suffix, sniff
from toolnexus.core.options import wrong
from toolnexus.errors import ConfigError

_TYPE = re.compile(
    r"(application|audio|font|image|message|model|multipart|text|video)/[a-z0-9][a-z0-9!#$&^_.+-]*"
)
_SAME = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/mp3": "audio/mpeg",
    "application/x-pdf": "application/pdf",
}
_UNKNOWN = "application/octet-stream"
_DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_FROM_FILE = "a file is read by MediaPart.from_file(path)"


def checked(mime_type: object, data: object, url: object, name: object) -> tuple[str, str | None]:
    """Kind and base64 content in their plain form. Raises `ConfigError` for what cannot be media."""
    if name is not None and not isinstance(name, str):
        raise wrong("MediaPart: name", name, "give text")
    if (data is None) == (url is None):
        has = "neither data nor url" if data is None else "data and url"
        raise ConfigError(f"MediaPart has {has}: give the one or the other; {_FROM_FILE}")
    kind = plain_kind(mime_type)
    content: str | None = None
    if data is not None:
        content = _base64(data)
        kind = true_kind(kind, first_bytes(content, START))
    else:
        path = _path(url)
        kind = kind or kind_of_suffix(path)
    if not kind:
        raise ConfigError("MediaPart: nothing tells what kind it is; give mime_type=, such as 'image/png'")
    return kind, content


def plain_kind(mime_type: object) -> str:
    """`mime_type` in lower case without parameters, `""` when there is none. Raises `ConfigError`."""
    if mime_type is None or mime_type == "":
        return ""
    if isinstance(mime_type, str):
        plain = mime_type.partition(";")[0].strip().lower()
        if _TYPE.fullmatch(plain):
            return _SAME.get(plain, plain)
    raise wrong("MediaPart: mime_type", mime_type, "give a MIME type, such as 'image/png'")


def true_kind(label: str, start: bytes) -> str:
    """The kind that a content which begins with `start` has, whatever its label says."""
    seen = sniff(start)
    if seen is None:
        return label
    same_family = seen.partition("/")[0] == label.partition("/")[0]
    return seen if same_family or label in ("", _UNKNOWN) else label


def _base64(data: object) -> str:
    if not isinstance(data, str):
        raise ConfigError(
            f"MediaPart: data is {type(data).__name__}; "
            f"give base64 text: base64.b64encode(content).decode(); {_FROM_FILE}"
        )
    if data[:5].lower() == "data:":
        raise ConfigError("MediaPart: data is a data: URL; give only what stands behind 'base64,'")
    if _is_base64(data):
        return data
    plain = "".join(data.split()).replace("-", "+").replace("_", "/")  # wrapped, or safe for URLs
    if _is_base64(plain):
        return plain
    raise wrong("MediaPart: data", data, f"this is no base64 text; {_FROM_FILE}")


def _is_base64(text: str) -> bool:
    if not text or len(text) % 4 or not text.isascii():
        return False
    digits = text.encode().rstrip(b"=")
    return len(text) - len(digits) <= 2 and not digits.translate(None, _DIGITS)


def _path(url: object) -> str:
    """The path of an address. Raises `ConfigError` for what no endpoint can fetch."""
    from urllib.parse import urlsplit

    if isinstance(url, str):
        if url[:5].lower() == "data:":
            raise ConfigError("MediaPart: url is a data: URL; give what stands behind 'base64,' as data=")
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = None
        if parts and parts.scheme in ("http", "https") and parts.hostname and not re.search(r"\s", url):
            return parts.path
    raise wrong("MediaPart: url", url, f"give an http(s) address; {_FROM_FILE}")
