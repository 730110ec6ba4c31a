"""HTML as text or Markdown, in one pass over its tags.

It builds no tree and calls nothing recursively, so neither depth nor wrong nesting matters; what it
does not know is passed over. It asks the clock at every tag, whatever the parser does between them.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.builtin.html_layout import Layout

Attributes = list[tuple[str, str | None]]

_DROPPED = frozenset(
    {
        "script",
        "style",
        "template",
        "noscript",
        "svg",
        "iframe",
        "object",
        "canvas",
        "audio",
        "video",
        "select",
    }
)
_BREAKS = frozenset(
    {"address", "article", "aside", "body", "caption", "center", "dd", "details", "dialog", "div", "dl", "dt"}
    | {"fieldset", "figcaption", "figure", "footer", "form", "header", "html", "legend", "main", "nav", "p"}
    | {"section", "summary"}
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_CODE = frozenset({"code", "kbd", "samp", "tt"})
_CONTAINERS = frozenset({"ul", "ol", "blockquote", "table"})
_CELLS = frozenset({"td", "th"})
_SPACE = re.compile(r"\s+")
_LANGUAGE = re.compile(r"\b(?:language|lang|highlight-source)-([\w+#.-]{1,20})")
_UNSAFE = re.compile(r"[\s()<>]")


def html_text(html: str, base: str, clock: Clock, *, marked: bool) -> str:
    """The readable content of `html`; `marked`: as Markdown, with links made absolute against `base`.

    Never raises on any input but what `clock` raises.
    """
    reader = _Reader(base, clock, marked)
    reader.feed(html.replace("<![", "<!_["))  # the parser of some Python versions raises on unknown sections
    reader.close()
    return reader.text()


class _Reader(HTMLParser):
    def __init__(self, base: str, clock: Clock, marked: bool) -> None:
        super().__init__(convert_charrefs=True)
        self._base = base
        self._clock = clock
        self._marked = marked
        self._page = Layout(marked)
        self._dropped = ""
        self._depth = 0
        self._title: list[str] = []
        self._in_title = False

    def text(self) -> str:
        """All that was read; the title of the page first, unless it has a heading of its own."""
        body = self._page.text()
        title = " ".join("".join(self._title).split())
        if not title or self._page.has_top_heading:
            return body
        return f"{'# ' if self._marked else ''}{title}\n\n{body}".rstrip("\n")

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        self._clock.check()
        if self._dropped:
            self._depth += tag == self._dropped
        elif tag in _DROPPED:
            self._dropped, self._depth = tag, 1
        elif self._page.in_pre:
            self._in_pre(tag, attrs)
        else:
            self._begin(tag, attrs)

    def _in_pre(self, tag: str, attrs: Attributes) -> None:
        if tag == "br":
            self._page.put("\n")
        elif tag == "code":
            self._page.language(_language(attrs))

    def _begin(self, tag: str, attrs: Attributes) -> None:
        page = self._page
        if tag == "a":
            page.begin_link(self._link(dict(attrs).get("href")))
        elif tag == "p":
            page.paragraph()
        elif tag in _BREAKS:
            page.soft_break()
        elif tag in _HEADINGS:
            page.begin_heading(_HEADINGS[tag])
        elif tag in _CONTAINERS:
            page.begin(tag)
        elif tag == "li":
            page.begin_item(dict(attrs).get("value"))
        elif tag == "tr":
            page.end_row()
        elif tag in _CELLS:
            page.begin_cell()
        elif tag in _CODE:
            page.begin_code()
        elif tag == "pre":
            page.begin_pre(_language(attrs))
        elif tag in ("br", "option", "hr", "img", "base", "title"):
            self._void(tag, dict(attrs))

    def _void(self, tag: str, attrs: dict[str, str | None]) -> None:
        """A tag that stands for itself."""
        if tag == "img":
            self._image(attrs)
        elif tag == "hr":
            self._page.rule()
        elif tag == "title":
            self._in_title = not self._title
        elif tag == "base":
            self._base = self._absolute(attrs.get("href")) or self._base
        else:
            self._page.put("\n")

    def handle_endtag(self, tag: str) -> None:
        self._clock.check()
        page = self._page
        if self._dropped:
            self._depth -= tag == self._dropped
            if not self._depth:
                self._dropped = ""
        elif page.in_pre:
            if tag == "pre":
                page.end_pre()
        elif tag == "a":
            page.end_link()
        elif tag in _CODE:
            page.end_code()
        elif tag in _BREAKS or tag in _HEADINGS:
            page.soft_break()
        elif tag in _CELLS:
            page.end_cell()
        elif tag == "tr":
            page.end_row()
        elif tag == "title":
            self._in_title = False
        elif tag in _CONTAINERS:
            page.end(tag)

    def handle_data(self, data: str) -> None:
        self._clock.check()
        if self._dropped:
            return
        if self._in_title:
            self._title.append(data)
        elif self._page.in_pre:
            self._page.put(data)
        else:
            self._page.put(_SPACE.sub(" ", data))

    def handle_comment(self, data: str) -> None:
        self._clock.check()

    def handle_decl(self, decl: str) -> None:
        self._clock.check()

    def handle_pi(self, data: str) -> None:
        self._clock.check()

    def _image(self, attrs: dict[str, str | None]) -> None:
        """An image with a description; one without is an ornament."""
        described = " ".join((attrs.get("alt") or "").split())
        if not described:
            return
        source = self._link(attrs.get("src")) if self._marked else ""
        self._page.put(f"![{described}]({source})" if source else described)

    def _link(self, target: str | None) -> str:
        """Where a link leads that a reader can follow, or `""`."""
        if target is None or target.lstrip().startswith("#"):
            return ""
        absolute = self._absolute(target)
        if absolute.partition(":")[0].lower() not in ("http", "https", "mailto"):
            return ""
        return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", absolute)

    def _absolute(self, target: str | None) -> str:
        try:
            return urljoin(self._base, (target or "").strip())
        except ValueError:
            return ""


def _language(attrs: Attributes) -> str:
    found = _LANGUAGE.search(dict(attrs).get("class") or "")
    return found[1] if found else ""
