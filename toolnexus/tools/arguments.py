"""What a model sends: read, repaired where only one reading is possible, checked.

Above: the life of a tool call, for every tool. The check is against the original schema of the
tool, never against the simpler one that the model was shown.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, cast
from weakref import WeakKeyDictionary

from toolnexus.core.names import did_you_mean
from toolnexus.core.schema import original_keys
from toolnexus.core.schema_words import json_type
from toolnexus.core.strict_json import decode
from toolnexus.core.tools import Tool
from toolnexus.errors import ToolError
from toolnexus.tools.coerce import coerce
from toolnexus.tools.forms import of_member
from toolnexus.tools.quick import Check, quick_check
from toolnexus.tools.validator import TooManySteps, Validator, checkable

logger = logging.getLogger("toolnexus.tools")

MAX_PROBLEMS = 5
"""How many wrong fields one refusal names."""


def parse_arguments(text: str) -> dict[str, Any]:
    """The arguments object that a model wrote; `{}` for an empty text.

    Raises `ToolError` that says where the text stops being JSON, or what came instead of an object.
    """
    if not text.strip():
        return {}
    try:
        value = decode(text)
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 20) : error.pos + 20]
        raise ToolError(
            f"the arguments are not valid JSON: {error.msg} at line {error.lineno}, column {error.colno} "
            f"(character {error.pos}), near {near!r}; send one JSON object"
        ) from None
    except RecursionError:
        raise ToolError("the arguments are nested too deeply; send a flatter JSON object") from None
    except ValueError as error:
        reason = str(error).split(";")[0]
        raise ToolError(f"the arguments are not valid JSON: {reason}; send one JSON object") from None
    if not isinstance(value, dict):
        raise ToolError(f"the arguments must be one JSON object, not {json_type(value)}: {shown(value)}")
    return cast("dict[str, Any]", value)


def shown(value: Any) -> str:
    """`value` as short JSON, for an error text."""
    if isinstance(value, str):
        value = value[:100]
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 80 else text[:77] + "..."


def check_arguments(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """`arguments`, coerced, once they are valid against the schema of `tool`.

    Raises `ToolError` that names each wrong field. What is broken in a schema checks nothing, with one
    warning, and a `$ref` that leads nowhere allows anything; a remote one is never fetched. Patterns of
    servers are not matched: the server checks its arguments itself.
    """
    check = _checks.get(tool)
    if check is None or check.schema is not tool.input_schema:
        check = _checks[tool] = _Check(tool)
    return check(arguments)


class _Check:
    """The check of one tool, compiled at its first use."""

    def __init__(self, tool: Tool) -> None:
        self.schema = tool.input_schema
        self._name = tool.name
        self._keys = original_keys(tool)
        self._node: dict[str, Any] = {}
        self._warned = False
        self._quick: Check | None = None
        self._validator: Validator | None = None
        try:
            self._node, flaws = checkable(self.schema, foreign=tool.source in _FOREIGN)
            self._quick = quick_check(self._node)
            if flaws:
                self._warn(f"is broken: {', '.join(map(shown, flaws))}")
        except RecursionError:
            self._warn("is nested too deeply, its arguments go unchecked")
        self._idle = _says_nothing(self._node)
        self._asks = not self._node.keys() <= _SILENT or bool(self._node.get("required"))
        """Whether even no arguments at all may be wrong."""

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._keys:
            arguments = {self._keys.get(key, key): value for key, value in arguments.items()}
        if self._idle or not (arguments or self._asks):
            return arguments
        if self._quick is not None and self._quick(arguments):
            return arguments
        try:
            if self._validator is None:
                self._validator = Validator(self._node, self._lost)
            coerced = coerce(arguments, self._node, self._validator.forms)
            problems = self._validator.read(coerced, _problems)
        except Exception as error:  # a foreign schema may hold anything
            # the last two may lie in the arguments
            self._idle = not isinstance(error, (RecursionError, TooManySteps))
            self._warn(f"cannot be used, its arguments go unchecked: {_reason(error)}")
            return arguments
        if problems:
            raise ToolError(refusal(self._name, problems))
        return coerced

    def _lost(self, error: Exception) -> None:
        self._warn(f"refers to what is not there: {_reason(error)}")

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("the input schema of tool %r %s", self._name, what)


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


_FOREIGN = ("mcp", "http", "a2a")
_checks: WeakKeyDictionary[Tool, _Check] = WeakKeyDictionary()

_SILENT = {"$schema", "$id", "title", "description", "type", "properties", "required", "additionalProperties"}


def _says_nothing(schema: dict[str, Any]) -> bool:
    """Whether every arguments object is valid against `schema`."""
    return (
        schema.keys() <= _SILENT
        and schema.get("type", "object") == "object"
        and not schema.get("properties")
        and not schema.get("required")
        and schema.get("additionalProperties", True) in (True, {})
    )


def explain(schema: Mapping[str, Any], arguments: dict[str, Any]) -> list[str]:
    """What is wrong with `arguments`, one line for each wrong field; empty when they are valid."""
    return Validator(checkable(schema, foreign=False)[0]).read(arguments, _problems)


def refusal(name: str, problems: list[str]) -> str:
    """What a model reads when its arguments were refused."""
    listed = problems if len(problems) <= MAX_PROBLEMS else [*problems[:MAX_PROBLEMS], "… and more"]
    return "\n- ".join([f"{name!r} was not run, its arguments are wrong:", *listed])


def _problems(errors: Iterator[Any]) -> list[str]:
    lines = (line for error in errors for line in _lines(error))
    return list(dict.fromkeys(islice(lines, MAX_PROBLEMS * 4)))


def path_text(path: Iterable[str | int]) -> str:
    """A path into the arguments as a model may read it: `filters[0].name`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[\w$-]+", step):
            text += f".{step}" if text else step
        else:
            text += f"[{step!r}]"
    return text or "the arguments"


def _lines(error: Any) -> Iterator[str]:
    """One violation in words: the path, what came, what is allowed."""
    path, value, rule = list(error.absolute_path), error.instance, error.validator_value
    where = path_text(path)
    match error.validator:
        case "required":
            for name in (n for n in rule if n not in value):
                yield f"{path_text([*path, name])}: required, but missing"
        case "additionalProperties" if rule is False:
            known = error.schema.get("properties", {})
            allowed = ", ".join(known) or "nothing"
            for name in (n for n in value if n not in known and of_member(error.schema, n) == [False]):
                yield f"{path_text([*path, name])}: unknown; allowed: {allowed}{did_you_mean(name, known)}"
        case "anyOf" | "oneOf" if error.context:
            yield from _union_lines(error, where)
        case "type":
            names = [rule] if isinstance(rule, str) else rule
            yield f"{where}: expected {_either(names)}, got {shown(value)}"
        case "enum" | "const":
            options = rule if error.validator == "enum" else [rule]
            allowed = ", ".join(shown(option) for option in islice(options, 50))
            yield f"{where}: expected {_one_of(len(options))}{allowed}, got {shown(value)}"
        case None:  # the schema `false`, of which jsonschema does not tell the place
            yield f"{where}: {shown(value)} is not allowed"
        case keyword:
            yield f"{where}: {shown(value)} does not meet {keyword} {shown(rule)}"


def _union_lines(error: Any, where: str) -> Iterator[str]:
    """What keeps a value from the form of a union that it is nearest to."""
    forms: dict[int, list[Any]] = {}
    for reason in error.context:
        forms.setdefault(reason.schema_path[0], []).append(reason)
    of_this_type = [form for form in forms.values() if not any(map(_is_other_type, form))]
    if not of_this_type:
        types = [r.validator_value for form in forms.values() for r in form if _is_other_type(r)]
        names = [name for t in types for name in ([t] if isinstance(t, str) else t)]
        yield f"{where}: expected {_either(names)}, got {shown(error.instance)}"
        return
    least = min(map(_distance, of_this_type))
    nearest = [form for form in of_this_type if _distance(form) == least]
    texts = ["; ".join(line for reason in form for line in _lines(reason)) for form in nearest[:5]]
    yield " or else ".join(dict.fromkeys(texts))


def _is_other_type(reason: Any) -> bool:
    return reason.validator == "type" and not reason.path


def _distance(form: list[Any]) -> tuple[bool, int]:
    """A wrong tag (`kind: "circle"`) says more than any number of other faults."""
    return any(reason.validator in ("const", "enum") for reason in form), len(form)


def _either(names: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(names))


def _one_of(count: int) -> str:
    return "one of " if count > 1 else ""
