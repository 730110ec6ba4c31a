"""Options of chat completions as fields of Anthropic message requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from toolnexus.errors import ConfigError
from toolnexus.models.chat.messages import members

_SAME = ("max_tokens", "temperature", "top_p")
_OTHERS = ("max_completion_tokens", "parallel_tool_calls", "reasoning_effort", "stop", "tool_choice", "user")
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh"}
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


def anthropic_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The body fields that `options` mean. Raises `ConfigError` for one without a counterpart."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        if name in _SAME:
            fields[name] = value
        elif name == "max_completion_tokens":
            fields["max_tokens"] = value
        elif name == "stop":
            fields["stop_sequences"] = [value] if isinstance(value, str) else value
        elif name == "reasoning_effort":
            fields |= _thinking(value)
        elif name == "user":
            fields["metadata"] = {"user_id": value}
        elif name not in _OTHERS:
            raise ConfigError(
                f"{name}={value!r}: an Anthropic-style endpoint has no such option; leave it out. "
                f"Allowed: {', '.join(sorted((*_SAME, *_OTHERS)))}"
            )
    if (choice := _tool_choice(options)) is not None:
        fields["tool_choice"] = choice
    return fields


def _thinking(effort: Any) -> dict[str, Any]:
    if effort == "none":
        return {"thinking": {"type": "disabled"}}
    if effort not in _EFFORTS:
        raise ConfigError(f"reasoning_effort={effort!r} is none of none, {', '.join(_EFFORTS)}")
    return {"thinking": {"type": "adaptive"}, "output_config": {"effort": _EFFORTS[effort]}}


def _tool_choice(options: Mapping[str, Any]) -> dict[str, Any] | None:
    given, parallel = options.get("tool_choice"), options.get("parallel_tool_calls")
    if given is None and parallel is not False:
        return None
    if isinstance(given, Mapping):
        name = members(members(cast("object", given)).get("function")).get("name")
        if not isinstance(name, str):
            raise ConfigError(
                f"tool_choice={given!r}: give {{'type': 'function', 'function': {{'name': …}}}}"
            )
        choice: dict[str, Any] = {"type": "tool", "name": name}
    elif given is None or given in _CHOICES:
        choice = {"type": _CHOICES[given or "auto"]}
    else:
        raise ConfigError(f"tool_choice={given!r} is none of {', '.join(_CHOICES)}, and names no function")
    if parallel is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    return choice
