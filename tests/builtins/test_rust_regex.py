"""Reading the dialect of ripgrep."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from toolnexus.tools.builtin.rust_regex import NeedsRipgrep, PatternError, to_python
from toolnexus.tools.builtin.search import for_ripgrep, ripgrep

RIPGREP = ripgrep()
LINES = [
    *["", "a", "ab", "aB", "b", "abc", "aab", "ba", "c-d", "^a", "a.b", "[a]", "a{2}", "x y", "1", "_"],
    *["ä", "Ä", "a\tb", "a\rb", "\\", "(a)", "|", "-", "]", "a1b2", "A", "&&"],
]
ATOMS = [
    *["a", "b", "c", "A", "1", "-", "]", "}", "&", "~", "#", " ", "ä", ".", "^", "$"],
    *[r"\.", r"\d", r"\w", r"\S", r"\b", r"\B", r"\<", r"\>", r"\A", r"\z", r"\t", r"\-", r"\#"],
    *[r"\x61", r"\x{62}", r"\u00e4", r"\b{start}", r"\b{end}", r"\b{start-half}", r"\b{end-half}"],
    *["[a]", "[^a]", "[a-c]", "[]a]", "[a-]", "[-a]", "[^]]", r"[\d_]", r"[\]\-]", "[&]", "[[:alpha:]]"],
    *["[[:punct:]b]", "[^[:space:]]", r"[^\n]", r"[a\n]", r"[\r\t]", r"\r", r"[\n]", r"[^\r\n]", r"[\r\n]"],
]
TIMES = ["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,}", "{0,2}", "{ 1 , 2 }", "{2}?", "**", "+*"]
ATOM = st.builds("{}{}".format, st.sampled_from(ATOMS), st.sampled_from(TIMES))
FLAGS = st.sampled_from(["", "", "(?i)", "(?-i)", "(?m)", "(?s-i)", "(?U)"])
OPEN = st.sampled_from(["(", "(?:", "(?P<n>", "(?i:", "(?-i:"])


def grouped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{}{}){}".format, OPEN, inner, st.sampled_from(TIMES)),
        st.builds("{}{}{}".format, inner, FLAGS, inner),
        st.builds("{}|{}".format, inner, inner),
    )


PATTERNS = st.recursive(ATOM, grouped, max_leaves=6)
NOISE = st.text(alphabet="ab1-^$.*+?()[]{}|\\,<>:=!iPnx&", max_size=7)


def by_ripgrep(pattern: str, file: Path) -> list[str] | None:
    """The lines that match, or None for a pattern that is wrong."""
    flags = ["--no-config", "--no-line-number", "--crlf"]
    argv = [str(RIPGREP), *flags, f"--regexp={for_ripgrep(pattern)}", str(file)]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert done.returncode in (0, 1) or b"regex" in done.stderr or b"not allowed" in done.stderr, done.stderr
    return None if done.returncode == 2 else done.stdout.decode().split("\n")[:-1]


def by_python(pattern: str) -> list[str] | None:
    try:
        matches = re.compile(to_python(pattern)).search
    except NeedsRipgrep:
        raise
    except PatternError as error:
        # ripgrep puts the pattern in a group, and so takes `)(` for two
        assume("closing parenthesis" not in str(error))
        return None
    return [line for line in LINES if any(map(matches, line.split("\r")))]


@pytest.mark.exhaustive
@pytest.mark.skipif(RIPGREP is None, reason="no ripgrep here")
def test_a_pattern_matches_the_lines_that_ripgrep_finds(tmp_path: Path) -> None:
    """[BT-60] What the reader understands means to it what it means to ripgrep; what is wrong is wrong."""
    file = tmp_path / "lines"
    file.write_text("".join([f"{line}\n" for line in LINES]))

    @settings(max_examples=250, deadline=None, derandomize=True, database=None)
    @given(st.one_of(PATTERNS, PATTERNS, NOISE))
    def agrees(pattern: str) -> None:
        try:
            ours = by_python(pattern)
        except NeedsRipgrep:
            return
        assert ours == by_ripgrep(pattern, file)

    agrees()


@pytest.mark.parametrize(
    ("pattern", "position", "what"),
    [
        (r"a\p{L}", 2, "a Unicode class"),
        ("[a&&b]", 3, "set operators"),
        ("[a--b]", 3, "set operators"),
        ("[a[b]]", 3, "a class inside a class"),
        ("[[:^alpha:]]", 2, "a class inside a class"),
        ("(?x) a", 3, "the flag 'x'"),
        ("(?i-u)a", 5, "the flag 'u'"),
    ],
)
def test_what_it_does_not_know_is_left_to_ripgrep(pattern: str, position: int, what: str) -> None:
    """[BT-61] A construct that is right but not understood is named, with its position."""
    with pytest.raises(NeedsRipgrep, match=what) as caught:
        to_python(pattern)
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("pattern", "position", "what"),
    [
        ("a(b", 2, "unclosed group"),
        ("a)", 2, "closing parenthesis without"),
        ("a[b", 2, "unclosed character class"),
        ("[]", 1, "unclosed character class"),
        ("|*", 2, "repetition operator"),
        ("a{,3}", 2, r"a literal brace is \\{"),
        ("a{3,2}", 2, "above its end"),
        ("ab\\", 3, "ends in a backslash"),
        (r"\Z", 1, "unknown escape"),
        (r"\ä", 1, "unknown escape"),
        (r"\x4", 1, "hexadecimal"),
        (r"\x{110000}", 1, "hexadecimal"),
        (r"\u12", 1, "hexadecimal"),
        (r"\b{stop}", 1, "word boundary"),
        (r"[\b]", 2, "not positions"),
        (r"[\d-z]", 2, "from one character"),
        ("(?<=a)b", 1, "look-around"),
        ("(?<!a)b", 1, "look-around"),
        ("a(?!b)", 2, "look-around"),
        ("(?>a)", 1, "unknown kind of group"),
        ("(?#a)", 1, "unknown kind of group"),
        ("(?P=a)", 1, "unknown kind of group"),
        ("(?iz)", 4, "unknown flag 'z'"),
        ("(?<a>x)(?P<a>y)", 8, "two groups are called 'a'"),
        ("a\n", 2, "spans lines"),
        (r"a\r?$", 2, "spans lines"),
        (r"a\x{d}", 2, "spans lines"),
        (r"a[\r\n]", 2, "spans lines"),
    ],
)
def test_an_error_has_its_position(pattern: str, position: int, what: str) -> None:
    """[BT-61] What is wrong is named, with the position of the character counted from 1."""
    with pytest.raises(PatternError, match=what) as caught:
        to_python(pattern)
    assert not isinstance(caught.value, NeedsRipgrep)
    assert caught.value.position == position
