"""The YAML header of a Markdown file."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from toolnexus.tools.front_matter import read_front_matter


def fields(header: str) -> dict[str, Any]:
    return dict(read_front_matter(f"---\n{header}\n---\nbody").fields)


def test_values_are_always_what_the_author_typed() -> None:
    """[SK-01] No value turns into a bool, a number, a date or null."""
    header = "a: no\nb: 12:30\nc: 2026-01-31\nd: 0x1f\ne: ~\nf: 1.10\ng: on\nh:"
    assert fields(header) == {
        "a": "no",
        "b": "12:30",
        "c": "2026-01-31",
        "d": "0x1f",
        "e": "~",
        "f": "1.10",
        "g": "on",
        "h": "",
    }


def test_lists_mappings_blocks_and_quotes_are_read_as_yaml() -> None:
    """[SK-01] Whatever is valid YAML is read as YAML, with strings as leaves."""
    header = 'a: [x, 1]\nb:\n- y\nc:\n  k: yes\nd: |\n  one\n  two\ne: "a: b"\nf: >-\n  one\n  two'
    assert fields(header) == {
        "a": ["x", "1"],
        "b": ["y"],
        "c": {"k": "yes"},
        "d": "one\ntwo\n",
        "e": "a: b",
        "f": "one two",
    }


def test_a_yaml_tag_creates_no_object() -> None:
    """[SK-01] A tag that names a Python object is read as its plain text."""
    assert fields("a: !!python/object/apply:os.getcwd x") == {"a": "x"}


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("Use when: the user asks: twice", "Use when: the user asks: twice"),
        ("[WIP] Turns PDFs into text", "[WIP] Turns PDFs into text"),
        ("[beta]", "[beta]"),
        ("{draft} text", "{draft} text"),
        ("@mentions and `code`", "@mentions and `code`"),
        ("*bold* start", "*bold* start"),
        ('"PDF" tools for all', '"PDF" tools for all'),
        ("Use when: a\n  line goes: on", "Use when: a line goes: on"),
        ("\n  key: in a sentence", "key: in a sentence"),
    ],
)
def test_a_quirk_of_yaml_in_a_sentence_is_taken_as_written(value: str, read: str) -> None:
    """[SK-02] An unquoted colon or a leading bracket does not lose the sentence, nor its neighbours."""
    matter = read_front_matter(
        f"---\n# a comment\nname: pdf\n\ndescription: {value}\nallowed-tools: [Read, Bash]\n---\nbody"
    )
    assert matter.fields == {"name": "pdf", "description": read, "allowed-tools": ["Read", "Bash"]}
    assert matter.rescued == ("description",)
    assert matter.body == "body"


def test_a_valid_header_is_not_called_rescued() -> None:
    """[SK-02] Only what was guessed is listed."""
    matter = read_front_matter('---\nname: pdf\ndescription: "Use when: asked"\n---\n')
    assert matter.rescued == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("---\nname: pdf\nno end", "closing line"),
        ("---\nname: [unclosed\ndescription: x\n---\n", "line"),
        ("---\nname: a: b\n---\n", "line 2"),
        ('---\nname: x\ndescription: "unclosed\n---\n', "line"),
        ("---\nname: x\nthis is no entry\n---\n", "line"),
        ("---\nname: a\x07b\n---\n", "not allowed"),
        ("---\njust a sentence\n---\n", "key: value"),
        ("---\n- a\n- b\n---\n", "key: value"),
        ("---\nname: " + "[" * 900 + "]" * 900 + "\n---\n", "too deeply"),
        ("---\nname: " + "[" * 60_000 + "\n---\n", "depth"),
        ("---\nname: x\nnotes: " + "n" * 70_000 + "\n---\n", "has 700[0-9]{2} characters; at most 65536"),
        ("---\nname: x\ndescription: d\nname: y\n---\n", "'name' stands there more than once"),
        ("---\nname: x\ndescription: a: b\nname: x\n---\n", "'name' stands there more than once"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_says_where(text: str, says: str) -> None:
    """[SK-03] An open fence, a broken name, an open quote or a stray line raise `ValueError`."""
    with pytest.raises(ValueError, match=says):
        read_front_matter(text)


@pytest.mark.parametrize("text", ["", "# Title\n", "\n---\nname: x\n---\n", "----\nname: x\n----\n"])
def test_a_file_without_a_header_is_all_body(text: str) -> None:
    """[SK-03] The header starts with the first line or there is none."""
    matter = read_front_matter(text)
    assert matter.fields == {}
    assert matter.body == text


def test_an_empty_header_has_no_fields() -> None:
    """[SK-03] Two fences with nothing between them are a header without fields."""
    matter = read_front_matter("---\n---\nbody")
    assert (matter.fields, matter.body) == ({}, "body")


def test_a_byte_order_mark_and_crlf_are_accepted() -> None:
    """[SK-04] Files from Windows read the same; the body has plain line ends."""
    matter = read_front_matter("\ufeff---\r\nname: pdf\r\ndescription: Ä\r\n--- \r\n\r\none\r\ntwo\r\n")
    assert matter.fields == {"name": "pdf", "description": "Ä"}
    assert matter.body == "\none\ntwo\n"


def test_of_a_key_that_stands_there_twice_the_last_counts_and_is_listed() -> None:
    """[SK-36] Whether the header is valid YAML or had to be rescued; the first line is not lost silently."""
    valid = read_front_matter("---\nname: pdf\ndescription: one\ndescription: two\n---\n")
    assert (valid.fields["description"], valid.repeated, valid.rescued) == ("two", ("description",), ())
    rescued = read_front_matter("---\nname: pdf\ndescription: a: b\ndescription: c: d\n---\n")
    assert rescued.fields["description"] == "c: d"
    assert (rescued.repeated, rescued.rescued) == (("description",), ("description",))


@pytest.mark.parametrize("loader", ["CBaseLoader", "BaseLoader"])
def test_both_parsers_of_pyyaml_read_the_same(loader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """[SK-02] With and without its compiled part: tabs around a value are white space, not an error."""
    if loader == "BaseLoader":
        monkeypatch.delattr(yaml, "CBaseLoader", raising=False)
    matter = read_front_matter("---\nname:\tpdf\t\ndescription:\t[beta] tool\nmetadata:\n\tkey: v\n---\n")
    assert matter.fields == {"name": "pdf", "description": "[beta] tool", "metadata": "key: v"}
    assert matter.rescued == ("description", "metadata")
