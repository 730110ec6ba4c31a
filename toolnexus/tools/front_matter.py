"""Front matter: the YAML header of a Markdown file, read leniently and always as text.

No value is ever guessed into another type: `no`, `12:30` and `2026-01-31` stay what the author
typed. A value that is no valid YAML (an unquoted colon, a leading bracket) is taken as written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, cast

from toolnexus.core.values import frozen

MAX_HEADER = 65_536
"""Characters of a header; a longer one is an error."""

_ENTRY = re.compile(r"([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+|$)")
_CONTINUES = re.compile(r"[ \t#]|- |$")
_PROSE = ("description",)
"""Keys whose value is a sentence: brackets in it are text, never a list."""
_IDENTITY = ("name",)
"""Keys that others refer to: a broken value is an error, never a guess."""


@frozen()
class FrontMatter:
    """A header and the text below it."""

    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Strings, and lists and mappings of them; empty without a header."""
    body: str = ""
    """What follows the header, line ends as `\\n`."""
    rescued: tuple[str, ...] = ()
    """Keys whose value was no valid YAML text and was taken as written."""
    repeated: tuple[str, ...] = ()
    """Keys that stand there more than once; the last one counts."""


def read_front_matter(text: str) -> FrontMatter:
    """The header of `text` and the body below it; a byte order mark and CRLF are accepted.

    Raises `ValueError` that says where, when there is a header and it cannot be read.
    """
    return parse(*split(text))


def split(text: str) -> tuple[list[str] | None, str]:
    """The lines of the header, None where there is none, and the body, line ends as `\\n`.

    Raises `ValueError` for a header without its end.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return None, "\n".join(lines)
    end = next((n for n, line in enumerate(lines) if n and line.rstrip() == "---"), None)
    if end is None:
        raise ValueError("the front matter has no closing line '---'")
    return lines[1:end], "\n".join(lines[end + 1 :])


def parse(lines: list[str] | None, body: str) -> FrontMatter:
    """What the lines of a header say. Raises `ValueError` that says where they cannot be read."""
    if lines is None:
        return FrontMatter(body=body)
    header = [_without_tabs(line) for line in lines]
    if (size := sum(map(len, header))) > MAX_HEADER:
        raise ValueError(f"the front matter has {size} characters; at most {MAX_HEADER} are read")
    failure = "a sentence is written as a list"
    try:
        fields, repeated = _mapping("\n".join(header))
        if all(isinstance(fields.get(key, ""), str) for key in _PROSE):
            return FrontMatter(fields, body, (), _harmless(repeated))
    except ValueError as error:
        failure = str(error)
    fields, rescued, repeated = _entry_by_entry(header, failure)
    return FrontMatter(fields, body, rescued, _harmless(repeated))


def _without_tabs(line: str) -> str:
    """An entry with a space after its colon: only one of the two parsers of PyYAML accepts a tab."""
    start = _ENTRY.match(line)
    return f"{line[: start.end()].rstrip()} {line[start.end() :]}".rstrip() if start else line


def _harmless(repeated: tuple[str, ...]) -> tuple[str, ...]:
    for key in _IDENTITY:
        if key in repeated:
            raise ValueError(f"{key!r} stands there more than once")
    return repeated


def _mapping(header: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """`header` as YAML where every scalar is a string, and the keys that it repeats."""
    import yaml

    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)(header)
    try:
        node: Any = loader.get_single_node()
        fields: Any = None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 2}: " if mark is not None else ""
        raise ValueError(f"{where}{error.problem}") from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    finally:
        loader.dispose()
    if node is None or fields is None:
        return {}, ()
    if not isinstance(fields, dict):
        raise ValueError("the front matter holds no 'key: value' lines")
    return cast("dict[str, Any]", fields), _repeated([key.value for key, _ in node.value])


def _repeated(keys: list[str]) -> tuple[str, ...]:
    return tuple([key for key, times in Counter(keys).items() if times > 1])


def _entry_by_entry(
    header: list[str], failure: str
) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]:
    """Read each top-level entry alone, so that one bad value does not spoil the others."""
    fields: dict[str, Any] = {}
    rescued: list[str] = []
    keys: list[str] = []
    for key, lines in _entries(header, failure):
        keys.append(key)
        try:
            value = _mapping("\n".join(lines))[0][key]
            sound = key not in _PROSE or isinstance(value, str)
        except ValueError:
            value, sound = None, False
        if not sound:
            value = _as_written(lines)
            if key in _IDENTITY or _unclosed(value):
                raise ValueError(failure)
            rescued.append(key)
        fields[key] = value
    return fields, tuple(dict.fromkeys(rescued)), _repeated(keys)


def _entries(header: list[str], failure: str) -> Iterator[tuple[str, list[str]]]:
    key, lines = "", list[str]()
    for line in header:
        if start := _ENTRY.match(line):
            if key:
                yield key, lines
            key, lines = start[1], [line]
        elif not _CONTINUES.match(line) or not (key or line.lstrip().startswith("#") or not line.strip()):
            raise ValueError(failure)
        else:
            lines.append(line)
    if key:
        yield key, lines


def _as_written(lines: list[str]) -> str:
    start = _ENTRY.match(lines[0])
    first = lines[0][start.end() :] if start else lines[0]
    return " ".join(part for line in (first, *lines[1:]) if (part := line.strip()))


def _unclosed(value: str) -> bool:
    """Whether it starts with a quote that nothing closes: where it should end, nobody knows."""
    return value[:1] in ("'", '"') and value.count(value[0]) < 2
