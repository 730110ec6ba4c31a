"""What the body of a response is, and the text in it. Nothing here raises, whatever the bytes are."""

from __future__ import annotations

import codecs
import re
from typing import Literal

from toolnexus.core.media import image_kind

Kind = Literal["image", "text", "binary"]

SNIFF_BYTES = 8192
"""How much of a body decides what it is."""
_META_BYTES = 2048
_READ_AS = {"ascii": "cp1252", "iso8859-1": "cp1252", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
"""Labels that are used for more than they name, or that Python takes only with a byte order mark."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CHARSETS = re.compile(
    r"utf-(8|16|32)(-[bl]e)?|ascii|iso8859-\d+|cp(437|8\d\d|9\d\d|125\d)|koi8-[rtu]|mac-\w+|ptcp154|tis-620"
    r"|gb2312|gbk|gb18030|hz|big5(hkscs)?|shift_jis(_2004|x0213)?|euc_(jp|kr|jis_2004|jisx0213)"
    r"|iso2022_(jp|kr)\w*|johab"
)
"""The codecs of texts. Python knows others: one is quadratic, one always raises, some are no charsets."""
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,39}", re.ASCII)
_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}?\bcharset\s{0,9}=\s{0,9}["']?([A-Za-z0-9_.:-]{1,40})"""
    rb"""|^\s{0,99}<\?xml[^>]{0,99}?\bencoding\s{0,9}=\s{0,9}["']([A-Za-z0-9_.:-]{1,40})""",
    re.IGNORECASE,
)
_TEXT = re.compile(
    r"text/.*|(application|image|model|message)/([\w.-]+\+)?(json|xml|yaml)"
    r"|application/(x-)?(javascript|ecmascript|typescript|ndjson|json-seq|jsonlines|json5|yaml|toml|sql|sh|tex"
    r"|graphql|httpd-php|latex|rtf|www-form-urlencoded|perl|python|ruby|csh|xhtml)|message/.*"
)


def kind_of(content_type: str, charset: str | None, head: bytes) -> Kind:
    """What a body is, judged by its first bytes before its declared type."""
    if image_kind(head):
        return "image"
    wide = (_marked(head) or _known(charset) or "").startswith(("utf-16", "utf-32"))
    if b"\0" in head[:SNIFF_BYTES] and not wide:
        return "binary"
    if wide or _TEXT.fullmatch(content_type) or _is_utf8(head):
        return "text"
    return "binary"


def is_html(content_type: str, head: bytes) -> bool:
    """Whether a text is HTML; without a declared type its beginning decides."""
    if content_type:
        return content_type in ("text/html", "application/xhtml+xml")
    return head.removeprefix(codecs.BOM_UTF8).lstrip()[:9].lower().startswith((b"<!doctype", b"<html"))


def decode(data: bytes, charset: str | None, *, whole: bool) -> str:
    """The text of `data`: by its byte order mark, `charset`, what it declares itself, or what fits.

    Bytes that are no text become replacement characters; of a body that is not `whole` a character
    that was cut is left out.
    """
    marked = _marked(data)
    declared = marked or _known(charset) or _declared(data[:_META_BYTES])
    name = declared or ("utf-8" if _is_utf8(data) else "cp1252")
    text = codecs.getincrementaldecoder(_READ_AS.get(name, name))("replace").decode(data, final=whole)
    return text.removeprefix("\ufeff")


def _marked(data: bytes) -> str | None:
    return next((name for mark, name in _MARKS if data.startswith(mark)), None)


def _declared(head: bytes) -> str | None:
    found = _DECLARED.search(head)
    name = _known((found[1] or found[2]).decode("ascii")) if found else None
    return None if name is None else "utf-8" if name.startswith(("utf-16", "utf-32")) else name


def _known(label: str | None) -> str | None:
    """The codec that a charset label means, if it is one for texts."""
    if label is None or not _LABEL.fullmatch(label):
        return None
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return None
    return name if _CHARSETS.fullmatch(name) else None


def _is_utf8(data: bytes) -> bool:
    """Whether `data` is UTF-8; its last character may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True
