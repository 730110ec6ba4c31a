"""HTML as text and as Markdown."""

from __future__ import annotations

import random
import time

import pytest

from toolnexus.errors import ToolError
from toolnexus.tools.builtin.bounded import Clock
from toolnexus.tools.builtin.html_text import html_text

BASE = "https://example.com/a/b"


def markdown(html: str, seconds: float = 30) -> str:
    return html_text(html, BASE, Clock(seconds, "ask for less"), marked=True)


def text(html: str) -> str:
    return html_text(html, BASE, Clock(30, "ask for less"), marked=False)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<h2>One</h2>two<h3>Three <code>x</code></h3>", "## One\n\ntwo\n\n### Three `x`"),
        ("<p>a  <b>b</b>\n c<p>d<div>e</div>f", "a b c\n\nd\n\ne\n\nf"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("a &lt;b&gt; &amp;amp; &#228; &nbsp; &#xD800;", "a <b> &amp; ä \ufffd"),
        ("x<hr>y", "x\n\n---\n\ny"),
        ("<kbd>a ` b</kbd> <code> </code>", "`` a ` b ``"),
        ("<ul><li>a<li>b<ol><li>c</li><li>d</ol><li>e</ul>f", "- a\n- b\n  1. c\n  2. d\n- e\n\nf"),
        ("<ol><li>a<li value=7><p>b<p>c<li>d</ol>", "1. a\n7. b\n\n   c\n8. d"),
        ("<blockquote>a<p>b<ul><li>c</ul></blockquote>d", "> a\n>\n> b\n>\n> - c\n\nd"),
        ("<pre>\n a\n\n  b  </pre>c", "```\n a\n\n  b\n```\n\nc"),
        ("<pre><code class='x language-c++'>i<b>f</b> &lt;</code></pre>", "```c++\nif <\n```"),
        ("<li><pre>```\r\nx", "- ````\n  ```\n  x\n  ````"),
    ],
)
def test_blocks_are_markdown(html: str, expected: str) -> None:
    """[BT-178] Headings, paragraphs, lists, quotes, rules and code, also where end tags are left out."""
    assert markdown(html) == expected


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (
            "<a href='../x?a=1&amp;b=(2) 3'>to <i>x</i></a>.",
            "[to x](https://example.com/x?a=1&b=%282%29%203).",
        ),
        ("a <a href=//h/>b </a>c", "a [b](https://h/) c"),
        ("<base href='/docs/'><a href=x>x</a>", "[x](https://example.com/docs/x)"),
        (
            "<a href=mailto:a@b.c>m</a> <a href='javascript:x()'>j</a> <a href=#t>t</a>",
            "[m](mailto:a@b.c) j t",
        ),
        ("<a href='http://[x'>y</a> <a href=''></a><a>z</a>", "y z"),
        ("<a href=c><h3>Card</h3><p>more</p></a>", "### [Card](https://example.com/a/c)\n\nmore"),
        ("<a href=c><code>f()</code></a>", "[`f()`](https://example.com/a/c)"),
        ("<img src=i.png alt='a  cat'><img src=j.png>", "![a cat](https://example.com/a/i.png)"),
        ("<img src=data:x alt=cat>", "cat"),
    ],
)
def test_links_lead_where_a_reader_can_follow(html: str, expected: str) -> None:
    """[BT-178] Links and images are absolute; scripts, places in the page, no URLs are plain text."""
    assert markdown(html) == expected


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (
            "<table><tr><th>A<th>B|C<tr><td><p>1</p></td><td>x<br>y</td></tr></table>",
            "| A | B\\|C |\n| --- | --- |\n| 1 | x y |",
        ),
        (
            "<table><caption>C</caption><tr><td>a<td><tr><td><td></table>z",
            "C\n\n| a |  |\n| --- | --- |\n\nz",
        ),
        ("<table><tr><td>one</table>", "one"),
        ("<table><tr><td>m<td><table><tr><td>a<td>b</table>x</table>", "m\n\n| a | b |\n| --- | --- |\n\nx"),
        ("<table><tr><td><h1>T</h1>a<td><p>b<p>c</table>", "# T\n\na\n\nb\n\nc"),
    ],
)
def test_a_table_of_data_is_rows_and_one_of_blocks_is_blocks(html: str, expected: str) -> None:
    """[BT-178] A table whose cells hold blocks arranges a page, and is read as one."""
    assert markdown(html) == expected


def test_what_nobody_reads_is_left_out() -> None:
    """[BT-178] Scripts, styles, drawings, frames and comments leave no trace."""
    html = (
        "<style>p{}</style>a<script>if (a < b) '<p>no</p>'</script><svg><title>no</title><svg/></svg>"
        "<!-- no --><noscript>no</noscript><template><p>no</template><iframe>no</iframe>"
        "<?no?><!no>b<![if no]>"
    )
    assert markdown(html) == "ab"


def test_the_title_is_the_heading_of_a_page_that_has_none() -> None:
    """[BT-178] `<title>` comes first unless there is an `<h1>`."""
    assert markdown("<title>The\n page</title><p>x") == "# The page\n\nx"
    assert markdown("<title>T</title>") == "# T"
    assert markdown("<title>T</title><h1>H</h1>x") == "# H\n\nx"


def test_plain_text_has_no_marks() -> None:
    """[BT-178] As text: the same lines without headings' marks, link targets, fences and quotes."""
    html = (
        "<title>T</title><h2>H</h2><blockquote>q <a href=x>link</a> <code>c</code></blockquote><pre>p</pre>"
        "<ul><li>i</ul><hr><img alt=a src=b><table><tr><td>1<td>2|3</table>"
    )
    assert text(html) == "T\n\nH\n\nq link c\n\np\n\n- i\n\na\n\n1 | 2|3"


DEEP = 20_000


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * DEEP + "x",
        "<blockquote>" * DEEP + "x",
        "<ul><li>" * DEEP + "x" + "</ul>" * DEEP,
        "<table><tr><td>" * DEEP + "x",
        "<ul>" * DEEP + "</blockquote>" * DEEP + "x",
    ],
)
def test_depth_costs_nothing(html: str) -> None:
    """[BT-179] Nothing is recursive, and no prefix grows with the depth."""
    found = markdown(html)
    assert found.endswith("x") and len(found) < 100


@pytest.mark.parametrize(
    "html", ["<!--" * 200_000, "<?" * 300_000, "<a b='" * 200_000, "<![CDATA[" * 200_000]
)
def test_a_page_that_is_made_to_be_slow_is_stopped(html: str) -> None:
    """[BT-179] Where the parser of Python is quadratic, the clock is looked at in between."""
    started = time.monotonic()
    try:
        markdown(html, seconds=0.2)
    except ToolError as error:
        assert str(error) == "stopped after 0.2 s; ask for less"
    assert time.monotonic() - started < 3


NAMES = "a p div code pre ul ol li blockquote table tr td th h1 h2 br hr b dl dd".split()
TAGS = [
    *[f"<{name}>" for name in NAMES],
    *[f"</{name}>" for name in NAMES],
    *["<a href='http://[x'>", "<a href=u>", "<li value=x>", "<p/>", "`", "|", "\0", "&#x110000;", "\n"],
]
SWALLOWING = ["<title>", "</title>", "<svg>", "</svg>", "<![x[", "<?", "</", "<!--", "<script>", "<a b='"]


@pytest.mark.parametrize(("pieces", "kept"), [(TAGS, True), (TAGS + SWALLOWING, False)])
def test_tags_in_any_order_are_no_error(pieces: list[str], kept: bool) -> None:
    """[BT-179] Whatever follows whatever, there is a text, and every word outside of a tag is in it."""
    chance = random.Random(7)
    for _ in range(1_000):
        words = [f"w{n}w" for n in range(chance.randint(1, 12))]
        html = "".join([chance.choice(pieces) + chance.choice(pieces) + word for word in words])
        for marked in (True, False):
            found = html_text(html, BASE, Clock(30, ""), marked=marked)
            assert not kept or [word for word in words if word not in found] == [], html
