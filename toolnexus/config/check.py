"""From plain data to its shape, and from what does not fit to lines that a person can act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from toolnexus.config.shape import Root
from toolnexus.config.source import Source
from toolnexus.config.table import Table, camel
from toolnexus.core.names import did_you_mean
from toolnexus.core.options import instead
from toolnexus.core.plain import Path, kind_of, path_text, shown

_TYPES = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
}
_SECRET = ("api_key", "headers", "token")


@dataclass(frozen=True, slots=True)
class Checked:
    """A document in its shape."""

    root: Root
    findings: list[str]
    """A `key: text` line for everything that did not fit."""
    cut: frozenset[Path]
    """Where something was left out for that reason."""

    def has_whole(self, key: str, depth: int = 1) -> bool:
        """Whether nothing of `key` down to `depth` was left out, also under a misspelt name."""
        twins = Root.twins()
        known = {key: key for key in Root.keys()} | twins
        heads = [(known.get(str(path[0])), len(path)) for path in self.cut]
        return not any(head is None or (head == key and length <= depth) for head, length in heads)


def check(source: Source) -> Checked:
    """Hold a document against its shape. What does not fit is cut out, so that the rest can be looked at."""
    data, lines, cut = dict(source.data), list(source.findings), set(source.cut)
    told = {path_text(path) for path in cut}
    while True:
        tables: dict[int, type[Table]] = {}
        try:
            return Checked(Root.model_validate(data, context=tables), lines, frozenset(cut))
        except ValidationError as error:
            details = error.errors(include_url=False)
        found = [_line(detail, data, tables) for detail in details]
        lines += [f"{path}: {text}" for path, text in found if path not in told]
        for detail in details:
            end = -1 if detail["type"] == "missing" else None
            cut.add(_cut(_walk(detail["loc"], data)[0][:end], data))


def _cut(path: Path, data: dict[str, Any]) -> Path:
    """Take away what is at `path`, with the whole list when it is in one. Gives the path of what is gone."""
    holder: Any = data
    for i, step in enumerate(path[:-1]):
        inner = holder.get(step)
        if not isinstance(inner, dict):  # a list, or gone already
            holder.pop(step, None)
            return path[: i + 1]
        holder = cast("dict[str, Any]", inner)
    holder.pop(path[-1], None)
    return path


def _line(
    detail: ErrorDetails, data: Mapping[str, Any], tables: Mapping[int, type[Table]]
) -> tuple[str, str]:
    path, parent = _walk(detail["loc"], data)
    if detail["type"] == "extra_forbidden":
        text = _unknown(str(path[-1]), parent, tables[id(parent)])
    else:
        text = _text(detail, secret=any(step in _SECRET for step in map(_snake, path)))
    return path_text(path), text


def _walk(loc: Sequence[str | int], data: Any) -> tuple[Path, Any]:
    """The keys as the document spells them, and the table or list that holds the last one."""
    path: list[str | int] = []
    parent: Any = data
    here: Any = data
    for step in loc:
        if isinstance(step, str) and (step.startswith("\0") or step == "[key]"):
            continue  # which alternative of a type was tried
        parent = cast("Any", here)
        if isinstance(here, dict):
            table = cast("dict[str, Any]", here)
            step = next((s for s in (step, camel(str(step)), _snake(step)) if s in table), step)
            here = table.get(cast("str", step))
        elif isinstance(here, list) and isinstance(step, int):
            here = cast("list[Any]", here)[step]
        path.append(step)
    return tuple(path), parent


def _snake(step: str | int) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in str(step))


def _unknown(key: str, table: Mapping[str, Any], kind: type[Table]) -> str:
    twins = kind.twins()
    other = twins.get(key) or next((twin for twin, known in twins.items() if known == key), None)
    if other in table:
        return f"the same key as {other!r}; keep one of them"
    hint = kind.hints.get(key) or kind.hints.get(_snake(key))
    if hint is not None:
        return hint
    allowed = kind.keys()
    near = did_you_mean(key, map(camel, allowed) if key != key.lower() else allowed)
    return f"unknown key{instead(near, sorted(allowed))}"


def _text(detail: ErrorDetails, *, secret: bool) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "missing":
        return "missing"
    if (wanted := _TYPES.get(kind)) is not None:
        return f"it must be {wanted}, not {kind_of(value)}"
    if kind == "kind":
        return f"it {detail['msg']}, not {kind_of(value)}"
    given = "it" if secret else shown(value)
    if kind == "greater_than_equal":
        return f"{given} must be {context['ge']:g} or more"
    if kind == "literal_error":
        return f"{given} is not allowed; allowed: {context['expected']}"
    if kind in ("string_too_short", "string_pattern_mismatch"):
        return "it must not be empty"
    if kind == "string_too_long":
        return f"it must have at most {context['max_length']} characters"
    return detail["msg"]
