"""Keys and values of a definition, whatever host it was written for: text in, remarks on what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from toolnexus.agents.examples import indent_examples
from toolnexus.agents.format import Remarks
from toolnexus.agents.limiting import folded, limits
from toolnexus.core.names import did_you_mean
from toolnexus.tools.front_matter import FrontMatter, parse, split

_COUNT = re.compile(r"[1-9][0-9]{0,8}")

HOOKS = "a command in a file is never run; give the client hooks"
SERVERS = "servers belong to the client: Client(mcp=…)"
SKILLS = "skills are loaded with the skill tool when they are needed, not put into the prompt"
SET_ON_MODEL = "set it on the model"
BACKGROUND = "whether it runs beside others is for its caller to say"


@dataclass(frozen=True)
class Keys:
    """The keys that a host knows; any spelling of one (case, hyphens, underscores) is that key."""

    carried: tuple[str, ...]
    told: Mapping[str, str]
    """Those that have no meaning here, and why."""
    silent: tuple[str, ...] = ()
    """Those that change nothing anywhere, such as a colour."""
    limiting: str = "'tools'"
    """What to write instead of a key that would limit an agent if it were known."""

    def meaning(self, key: str) -> str:
        """The known key that `key` is a spelling of, or `key`."""
        return self._by_folded.get(folded(key), key)

    @cached_property
    def _by_folded(self) -> Mapping[str, str]:
        return {folded(key): key for key in (*self.carried, *self.told, *self.silent)}

    def is_carried(self, key: str) -> bool:
        return self.meaning(key) in self.carried


def front_matter(text: str, keys: Keys, remarks: Remarks) -> FrontMatter | None:
    """The header and the body; None where there is no header, or one that cannot be read."""

    def begins_a_key(key: str) -> bool:  # in a sentence such words begin with a capital letter
        return key[:1].islower() and keys.is_carried(key)

    try:
        lines, body = split(text)
        if lines is None:
            return None
        matter = parse(indent_examples(lines, begins_a_key), body)
    except ValueError as error:
        return remarks.fail("front matter", str(error))
    for key in matter.repeated:
        remarks.fail(repr(key), "it is given twice; keep one")
    for key in matter.rescued:
        remarks.lose(key, "it is no valid YAML text and was taken as written; put it in quotes")
    return matter


def known(given: Mapping[str, Any], keys: Keys, remarks: Remarks) -> dict[str, Any]:
    """The values that are carried over, by what they mean; all others are told."""
    out: dict[str, Any] = {}
    for key, value in given.items():
        meaning = keys.meaning(key)
        if meaning not in keys.carried:
            _not_carried(meaning, value, keys, remarks)
        elif meaning in out:
            remarks.fail(key, "it is given twice, in two spellings; keep one")
        else:
            out[meaning] = value
    return out


def _not_carried(key: str, value: Any, keys: Keys, remarks: Remarks) -> None:
    if key in keys.silent:
        return
    if key in keys.told:
        if value not in ("", [], {}):
            remarks.lose(key, keys.told[key])
        return
    key = key[:60]
    if limits(key):
        remarks.fail(repr(key), f"this key does not limit an agent; write {keys.limiting}")
    else:
        remarks.lose(repr(key), f"unknown key{did_you_mean(key, [*keys.carried, *keys.told])}")


def text_of(fields: Mapping[str, Any], key: str, remarks: Remarks, *, missing: str = "") -> str:
    """The text under `key`, `""` for none. `missing`: what to do about a key that must be there."""
    value = fields.get(key, "")
    if not isinstance(value, str):
        remarks.fail(key, "give a text")
        return ""
    if missing and not value.strip():
        remarks.fail(key, f"it is missing; {missing}")
    return value.strip()


def name_of(
    fields: Mapping[str, Any], remarks: Remarks, *, default: str = "", key: str = "name"
) -> str | None:
    """The name under `key`, or `default`, which comes from the place of the file."""
    missing = "" if default else "others delegate to an agent by its name"
    name = text_of(fields, key, remarks, missing=missing) or default
    if len(name) > 64 or not name.isprintable():
        return remarks.fail("name", "a name is one line of 1 to 64 characters")
    return name or None


def description_of(fields: Mapping[str, Any], remarks: Remarks) -> str:
    return text_of(fields, "description", remarks, missing="say when to use the agent")


def flag_of(fields: Mapping[str, Any], key: str, remarks: Remarks, *, doubt: bool) -> bool:
    """Whether `key` is true; what is neither true nor false is an error. `doubt` counts then."""
    text = text_of(fields, key, remarks).lower()
    if text not in ("", "true", "false"):
        remarks.fail(key, "give true or false")
        return doubt
    return text == "true"


def count_of(fields: Mapping[str, Any], key: str, remarks: Remarks) -> int | None:
    text = text_of(fields, key, remarks)
    if text and not _COUNT.fullmatch(text):
        return remarks.fail(key, "give a whole number of 1 or more")
    return int(text) if text else None


def prompt_of(text: str, key: str, remarks: Remarks) -> str:
    """The system prompt, trimmed; an empty one is told."""
    prompt = text.strip()
    if not prompt:
        remarks.lose(key, "it is empty: the agent has no system prompt")
    return prompt


def model_of(text: str, models: Mapping[str, str], remarks: Remarks) -> str | None:
    """A spec for `Agent`: what `models` says, `provider:name`, or a name at the client's own endpoint."""
    if text in models or ":" in text:
        return models.get(text, text)
    name, bracket, _ = text.partition("[")
    if bracket:
        remarks.lose("model", "the size of the context window is not carried over")
    alias = name.lower()
    if alias in models:
        return models[alias]
    if not alias.isalpha():  # a full name of a model has more than letters
        return name or None
    if alias != "inherit":
        say = f"say what it is with models={{{alias!r}: 'provider:name'}}"
        remarks.lose("model", f"{alias!r} is not known here, so the caller's model is used; {say}")
    return None


def as_text(value: Any) -> Any:
    """A value of JSON or TOML as front matter would give it: texts, and lists and mappings of them."""
    if isinstance(value, Mapping):
        table = cast("Mapping[Any, Any]", value)
        return {str(key): as_text(item) for key, item in table.items() if item is not None}
    if isinstance(value, list):
        return [as_text(item) for item in cast("list[Any]", value)]
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: ""}[value]
    return str(value)
