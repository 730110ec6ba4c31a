"""An OpenAPI document from wherever it is, as plain JSON values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from toolnexus.core.files import read_text, reason
from toolnexus.core.strict_json import decode
from toolnexus.errors import ConfigError
from toolnexus.tools.openapi.report import kind_of

MOST_BYTES = 32 << 20
MOST_VALUES = 2_000_000
"""How many values a document may stand for: a few aliases of YAML can stand for billions."""

_VERSION = re.compile(r"3\.[0-2](\.\d+)?([-+].*)?")
_URL = re.compile(r"https?://\S+", re.IGNORECASE)


def is_url(document: object) -> bool:
    """Whether a document is named by its address on the web."""
    return isinstance(document, str) and _URL.fullmatch(document.strip()) is not None


def read_document(document: Mapping[str, Any] | str | Path) -> tuple[dict[str, Any], str]:
    """The document of a mapping, a JSON or YAML file, or such a text, and how errors call it.

    Raises `ConfigError` when it is none, or none of OpenAPI 3.0 to 3.2.
    """
    if isinstance(document, Mapping):
        return checked(dict(document), "the OpenAPI document"), "the OpenAPI document"
    if not isinstance(document, (str, Path)):
        kind = type(document).__name__
        raise ConfigError(f"an OpenAPI document is a mapping, a path, a text or a URL, not {kind}")
    if isinstance(document, str) and ("\n" in document or document.lstrip()[:1] == "{"):
        return parsed(document, "the OpenAPI document"), "the OpenAPI document"
    try:
        path = Path(document).expanduser()
        text = read_text(path, MOST_BYTES)
    except (OSError, RuntimeError) as error:
        why = reason(error) if isinstance(error, OSError) else error
        raise ConfigError(f"OpenAPI document {str(document)!r} cannot be read: {why}") from None
    return parsed(text, str(document)), str(document)


def parsed(text: str, where: str) -> dict[str, Any]:
    """The document that a JSON or YAML text holds. Raises `ConfigError` that begins with `where`."""
    try:
        value = decode(text) if text.lstrip()[:1] == "{" else _from_yaml(text)
    except RecursionError:
        raise ConfigError(f"{where}: it does not parse: it is nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"{where}: it does not parse: {' '.join(str(error).split())[:500]}") from None
    return checked(value, where)


def checked(value: Any, where: str) -> dict[str, Any]:
    """A copy of `value` in plain JSON, once it says that it is OpenAPI 3. Raises `ConfigError`."""
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: an OpenAPI document is an object, not {kind_of(value)}")
    document = cast("dict[str, Any]", value)
    if "swagger" in document:
        said = str(document["swagger"])[:20]
        raise ConfigError(f"{where}: it is Swagger {said}; convert it to OpenAPI 3, many programs do that")
    if not _VERSION.fullmatch(str(document.get("openapi"))):
        said = repr(document.get("openapi"))[:40]
        raise ConfigError(f"{where}: openapi: {said}; documents of OpenAPI 3.0, 3.1 and 3.2 are read")
    try:
        if _size(document, {}) > MOST_VALUES:
            raise ConfigError(f"{where}: it stands for more than {MOST_VALUES:,} values")
        return json.loads(json.dumps(document, default=_plain))
    except RecursionError:
        raise ConfigError(f"{where}: it is nested too deeply, or holds itself") from None
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: it holds what JSON cannot: {error}") from None


def _size(value: Any, known: dict[int, int]) -> int:
    """How many values there would be without sharing."""
    if not isinstance(value, (dict, list)):
        return 1
    holder = cast("dict[Any, Any] | list[Any]", value)
    if id(holder) not in known:
        inner = holder.values() if isinstance(holder, dict) else holder
        known[id(holder)] = 1 + sum([_size(item, known) for item in inner])
    return known[id(holder)]


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    if isinstance(value, (tuple, set, frozenset)):
        return list(cast("tuple[Any, ...]", value))
    raise TypeError(f"{type(value).__name__} is none of its types")


def _from_yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=_loader())  # made of the safe one
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise ValueError(f"{where}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


@cache
def _loader() -> Any:
    """YAML as OpenAPI means it, with the types of JSON: `no`, `012` and `2020-01-31` are texts."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):
        yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012

    for tag, pattern, first in (
        ("null", r"~|null|Null|NULL|", "~nN\0"),
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("int", r"-?(0|[1-9][0-9]*)", "-0123456789"),
        ("float", r"-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?", "-0123456789"),
        ("merge", r"<<", "<"),
    ):
        chars = ["" if c == "\0" else c for c in first]
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"^(?:{pattern})$"), chars)
    return Loader
