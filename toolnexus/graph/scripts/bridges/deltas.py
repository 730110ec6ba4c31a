"""What `host.emit` makes of a type and a payload."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from toolnexus.core.content import call_from_wire, call_to_wire, part_from_wire, part_to_wire


def delta_of(type: str, payload: Any) -> dict[str, Any]:
    """The delta. Raises `ValueError` for a payload that is not of the shape of its type."""
    read = _READERS.get(type)
    if read is None:
        return {"type": type} if payload is None else {"type": type, "payload": payload}
    if type != "token" and isinstance(payload, str):
        payload = json.loads(payload)
    return read(payload)


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "part", "part": part}


def _token(payload: Any) -> dict[str, Any]:
    compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    text = payload if isinstance(payload, str) else compact(payload)
    return _part({"type": "text", "text": text})


def _tool_call(payload: Any) -> dict[str, Any]:
    call = {key: value for key, value in _table(payload).items() if value is not None}
    return _part({"type": "tool_call", "call": call_to_wire(call_from_wire(call))})


def _tool_result(payload: Any) -> dict[str, Any]:
    fields = _table(payload)
    parts, failed = _list(fields.get("parts")), fields.get("is_error") or False
    if not isinstance(failed, bool):
        raise ValueError("is_error is neither true nor false")
    result = {
        "call_id": _text(fields, "tool_call_id"),
        "content": {"parts": [part_to_wire(part_from_wire(part)) for part in parts]},
        "is_error": failed,
    }
    return _part({"type": "tool_result", "result": result})


def _any_part(payload: Any) -> dict[str, Any]:
    return _part(part_to_wire(part_from_wire(payload)))


def _finish(payload: Any) -> dict[str, Any]:
    fields = _table(payload)
    ids = {key: _text(fields, key) for key in ("request_id", "response_id") if fields.get(key)}
    return {"type": "finish", "finish_reason": _text(fields, "finish_reason"), **ids}


def _provider_outputs(payload: Any) -> dict[str, Any]:
    outputs: list[dict[str, Any]] = []
    for entry in map(_table, _list(payload)):
        told = {key: _text(entry, key) for key in ("provider", "extension")}
        outputs.append({**told, "value": entry["value"]})
    return {"type": "provider_outputs", "provider_outputs": outputs}


_READERS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "token": _token,
    "tool_call": _tool_call,
    "tool_result": _tool_result,
    "part": _any_part,
    "finish": _finish,
    "provider_outputs": _provider_outputs,
}


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("it is no object")
    return cast("Mapping[str, Any]", value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ValueError("it is no list with something in it")
    return cast("list[Any]", value)


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f"it has no {key}")
    return value
