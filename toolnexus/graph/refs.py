"""References to the board, `${board:path:default}`, in the texts of a node's config."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from toolnexus.core import strict_json
from toolnexus.errors import ToolnexusError
from toolnexus.graph.expr.texts import float_text
from toolnexus.graph.expr.values import is_list, is_map

_SIGN = "${board"
_START = re.compile(r"(?<!\\)(\\*)\$\{board([:.])")
_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_DEFAULT = re.compile(r"((?:[^\\}]|\\.|\\\Z)*)\}", re.DOTALL)
_ESCAPED = re.compile(r"\\([\\}])")
_MISSING: Any = object()


class RefError(ToolnexusError, ValueError):
    """A reference cannot be resolved. `path` is what it names, `place` where in the config it stands."""

    def __init__(self, why: str, path: str = "", place: str = "") -> None:
        super().__init__(f"{place}: {why}" if place else why)
        self.why = why
        self.path = path
        self.place = place


class Reference(NamedTuple):
    """One reference: what it names, and the text after the second colon or None."""

    path: str
    default: str | None


def resolve_text(text: str, variables: Mapping[str, Any]) -> Any:
    """`text` with its references resolved; one that stands alone keeps the type of its value.

    Values are detached copies. Raises `RefError`.
    """
    if _SIGN not in text:
        return text
    parts = list(_parse(text))
    if len(parts) == 1 and isinstance(parts[0], Reference):
        return _alone(parts[0], variables)
    return _joined(parts, variables)


def resolve_string(text: str, variables: Mapping[str, Any]) -> str:
    """Like `resolve_text`, but always a text."""
    return _joined(_parse(text), variables) if _SIGN in text else text


def resolve_config(
    config: Mapping[str, Any], variables: Mapping[str, Any], verbatim: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """A copy of `config` in which every text at any depth is resolved, keys excepted.

    The fields `verbatim` are taken over as they are. Raises `RefError` with the place, also for a
    reference in a key.
    """
    return {
        key: value if key in verbatim else _resolve(value, variables, _key(key, ""))
        for key, value in config.items()
    }


def references(config: Mapping[str, Any], verbatim: frozenset[str] = frozenset()) -> list[tuple[str, bool]]:
    """The path of every reference in `config`, and whether it has a default. Malformed ones are left out."""
    found: list[tuple[str, bool]] = []
    for text in _texts([value for key, value in config.items() if key not in verbatim]):
        try:
            found += [(r.path, r.default is not None) for r in _parse(text) if isinstance(r, Reference)]
        except RefError:
            continue
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if _SIGN in value:
            yield value
    elif is_list(value) or is_map(value):
        for item in value if is_list(value) else value.values():
            yield from _texts(item)


def _key(key: str, place: str) -> str:
    place = f"{place}.{key}" if place else str(key)
    if _SIGN in str(key) and any(isinstance(part, Reference) for part in _parse(key, place)):
        raise RefError("a key cannot hold a reference; move it into the value", place=place)
    return place


def _resolve(value: Any, variables: Mapping[str, Any], place: str) -> Any:
    if isinstance(value, str):
        try:
            return resolve_text(value, variables)
        except RefError as error:
            raise RefError(error.why, error.path, place) from None
    if is_map(value):
        return {key: _resolve(item, variables, _key(key, place)) for key, item in value.items()}
    if is_list(value):
        return [_resolve(item, variables, f"{place}[{n}]") for n, item in enumerate(value)]
    return value


def _parse(text: str, place: str = "") -> Iterator[str | Reference]:
    """The pieces of `text`: plain ones, and references."""
    position = 0
    while start := _START.search(text, position):
        slashes = start[1]
        if len(slashes) % 2:  # an odd backslash takes the meaning away and goes with it
            yield text[position : start.start()] + slashes[1:] + start.group()[len(slashes) :]
            position = start.end()
            continue
        if start[2] == ".":
            raise RefError(f"{_shown(text, start)} is the old form; write ${{board:name}}", place=place)
        if start.end(1) > position:
            yield text[position : start.end(1)]
        reference, position = _reference(text, start, place)
        yield reference
    if position < len(text):
        yield text[position:]


def _reference(text: str, start: re.Match[str], place: str) -> tuple[Reference, int]:
    begin = start.end()
    end = next((n for n in range(begin, len(text)) if text[n] in ":}"), -1)
    if end < 0:
        raise RefError(f"{_shown(text, start)} has no closing brace", place=place)
    path = text[begin:end].strip()
    if _PATH.fullmatch(path) is None:
        raise RefError(
            f"{_shown(text, start)} has no valid path: names of letters, digits and _, joined by dots",
            place=place,
        )
    if text[end] == "}":
        return Reference(path, None), end + 1
    default = _DEFAULT.match(text, end + 1)
    if default is None:
        raise RefError(f"{_shown(text, start)} has no closing brace", path, place)
    if _SIGN in default[1]:
        raise RefError(f"{_shown(text, start)} has a reference in its default", path, place)
    return Reference(path, _ESCAPED.sub(r"\1", default[1])), default.end()


def _shown(text: str, start: re.Match[str]) -> str:
    return repr(text[start.end(1) : start.end(1) + 60])


def _alone(reference: Reference, variables: Mapping[str, Any]) -> Any:
    value = _lookup(reference.path, variables)
    if value is not _MISSING:
        return _detached(value)
    text = _default(reference)
    try:
        return strict_json.decode(text)
    except (ValueError, RecursionError):
        return text


def _joined(parts: Any, variables: Mapping[str, Any]) -> str:
    return "".join(part if isinstance(part, str) else _inside(part, variables) for part in parts)


def _inside(reference: Reference, variables: Mapping[str, Any]) -> str:
    value = _lookup(reference.path, variables)
    if value is _MISSING:
        return _default(reference)
    return value if isinstance(value, str) else compact(value)


def _default(reference: Reference) -> str:
    if reference.default is None:
        raise RefError(
            f"the board has no {reference.path!r}; set it before, or give a default: "
            f"${{board:{reference.path}:…}}",
            reference.path,
        )
    return reference.default


def _lookup(path: str, variables: Mapping[str, Any]) -> Any:
    if path in variables:
        return variables[path]
    first, *rest = path.split(".")
    value = variables.get(first, _MISSING)
    for name in rest:
        if not is_map(value):
            return _MISSING
        value = value.get(name, _MISSING)
    return value


def _detached(value: Any) -> Any:
    if is_map(value):
        return {key: _detached(item) for key, item in value.items()}
    if is_list(value):
        return [_detached(item) for item in value]
    return value


def compact(value: Any) -> str:
    """`value` as JSON without blanks, keys sorted, whole floats as integers."""
    if isinstance(value, float):
        return float_text(value, json_form=True)
    if is_list(value):
        return f"[{','.join(map(compact, value))}]"
    if is_map(value):
        shown = (f"{compact(key)}:{compact(value[key])}" for key in sorted(value))
        return f"{{{','.join(shown)}}}"
    return json.dumps(value, ensure_ascii=False)
