"""Suspension is data: a question (`Request`) and its reply (`Answer`)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, cast, get_args

from toolnexus.core.values import frozen

Reason = Literal["declined", "cancelled", "expired"]

TOOL_CALL = "tool_call"
"""The kind of requests whose answer is what the host's tools gave."""

_CALL = frozenset(("id", "name", "input"))


def _new_id() -> str:
    return "req_" + os.urandom(8).hex()


@frozen(kw_only=True)
class Request:
    """A question that a run suspends on.

    `kind` says what is wanted: `question`, `input` (with `data["schema"]`), `approval`,
    `authorization` (with `url`), `tool_call`. `id` is random: one id is answered once.
    """

    kind: str
    prompt: str
    id: str = field(default_factory=_new_id)
    url: str | None = None
    data: Mapping[str, Any] | None = None
    """Details; once a run asks it, `data["path"]` is the asking agent's path, a list."""
    expires_at: str | None = None
    """ISO 8601 time after which nobody waits for the answer."""
    digest: str | None = None
    """Of the tool and the arguments that an answer is for; set when a run asks."""

    def to_json(self) -> dict[str, Any]:
        """Plain wire data; absent keys are left out."""
        out: dict[str, Any] = {"id": self.id, "kind": self.kind, "prompt": self.prompt}
        if self.url is not None:
            out["url"] = self.url
        if self.data is not None:
            out["data"] = dict(self.data)
        if self.expires_at is not None:
            out["expiresAt"] = self.expires_at
        if self.digest is not None:
            out["digest"] = self.digest
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Request:
        """The request that `to_json` wrote. Raises `ValueError` for anything else."""
        given = _fields(data, {"id": str, "kind": str, "prompt": str}, _REQUEST)
        return cls(**given)

    def expired(self) -> bool:
        """Whether its time is over. A time that is none, or without a zone, is never over."""
        if self.expires_at is None:
            return False
        from datetime import UTC, datetime

        try:
            return datetime.fromisoformat(self.expires_at) <= datetime.now(UTC)
        except (ValueError, TypeError):
            return False


@frozen(kw_only=True)
class Answer:
    """The reply to the `Request` with the same `id`."""

    id: str
    ok: bool = True
    data: Any = None
    """What was answered, as the host gave it; the asking tool reads `ctx.answer.data`.

    The builtin `question` takes the text, or a list of texts in the order of `data["questions"]`;
    `input` takes a mapping that fits `data["schema"]`; `approval` and `authorization` need none;
    `tool_call` takes `{"results": [{"id", "output", "isError"}]}`, one for each of `data["calls"]`.
    """
    reason: Reason | None = None
    """Why not, when `ok` is false."""

    def to_json(self) -> dict[str, Any]:
        """Plain wire data; absent keys are left out."""
        out: dict[str, Any] = {"id": self.id, "ok": self.ok}
        if self.data is not None:
            out["data"] = self.data
        if self.reason is not None:
            out["reason"] = self.reason
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Answer:
        """The answer that `to_json` wrote. Raises `ValueError` for anything else."""
        given = _fields(data, {"id": str}, {"ok": bool, "data": object, "reason": str})
        if given.get("reason") not in (None, *get_args(Reason)):
            raise ValueError(f"reason {given['reason']!r}; allowed: {list(get_args(Reason))}")
        return cls(**given)


_REQUEST = {"url": str, "data": Mapping, "expiresAt": str, "digest": str}
_NAMES = {"expiresAt": "expires_at"}


def _fields(
    data: Mapping[str, Any], needed: Mapping[str, Any], optional: Mapping[str, Any]
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, kind in {**needed, **optional}.items():
        if key not in data:
            if key in needed:
                raise ValueError(f"{key!r} is missing")
        elif not isinstance(data[key], kind):
            raise ValueError(f"{key!r} is {data[key]!r}, which is no {kind.__name__}")
        else:
            out[_NAMES.get(key, key)] = data[key]
    if unknown := data.keys() - needed.keys() - optional.keys():
        raise ValueError(f"unknown keys {sorted(unknown)}")
    return out


def relayed_calls(request: Request) -> list[Mapping[str, Any]]:
    """The calls that the host is to run: `{"id", "name", "input", …}` each; none of another request."""
    calls = _list_in(request.data, "calls") if request.kind == TOOL_CALL else None
    return (
        calls if calls and all(isinstance(call, Mapping) and _CALL <= call.keys() for call in calls) else []
    )


def check_answer(request: Request, answer: Answer) -> None:
    """Raises `ValueError` for an answer to relayed calls that is not one result for each of them."""
    calls = relayed_calls(request)
    if not calls or not answer.ok:
        return
    results = _list_in(answer.data, "results")
    if results is None:
        raise ValueError('an answer to tool calls is {"results": [{"id", "output", "isError"}]}')
    found = [_checked_result(result) for result in results]
    wanted = [call["id"] for call in calls]
    if sorted(found) != sorted(wanted):
        raise ValueError(f"there must be one result for each of the calls {wanted}, not for {found}")


def _checked_result(result: Any) -> str:
    """Of which call it is. Raises `ValueError` for what is no result."""
    given: Mapping[str, Any] = cast("Any", result) if isinstance(result, Mapping) else {}
    if not isinstance(id := given.get("id"), str):
        raise ValueError(f"{result!r} is no result of a call; give its 'id' and 'output'")
    if unknown := given.keys() - {"id", "output", "isError"}:
        raise ValueError(f"the result of call {id!r} has unknown keys {sorted(unknown)}")
    if "output" not in given or not isinstance(given.get("isError", False), bool):
        raise ValueError(f"the result of call {id!r} needs 'output', and 'isError' is true or false")
    try:
        json.dumps(given["output"], allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"the output of call {id!r} is no JSON value") from None
    return id


def _list_in(data: Any, key: str) -> list[Any] | None:
    value = cast("Mapping[str, Any]", data).get(key) if isinstance(data, Mapping) else None
    return cast("list[Any]", value) if isinstance(value, list) else None


def bound_to(request: Request, call_id: str) -> str | None:
    """The digest of the call that an answer is for; of relayed calls each has its own."""
    own = next((call for call in relayed_calls(request) if call["id"] == call_id), None)
    return request.digest if own is None else call_digest(own["name"], own["input"])


def call_digest(tool: str, arguments: Mapping[str, Any]) -> str:
    """What an answer is bound to: the tool and the arguments it would run with."""
    from hashlib import sha256

    text = json.dumps([tool, arguments], sort_keys=True, ensure_ascii=True, default=repr)
    return sha256(text.encode()).hexdigest()
