"""Suspension is data: a question (`Request`) and its reply (`Answer`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Reason = Literal["declined", "cancelled", "expired"]


def _new_id() -> str:
    return "req_" + os.urandom(8).hex()


@dataclass(frozen=True, slots=True, kw_only=True)
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

    def to_json(self) -> dict[str, Any]:
        """Plain wire data; absent keys are left out."""
        out: dict[str, Any] = {"id": self.id, "kind": self.kind, "prompt": self.prompt}
        if self.url is not None:
            out["url"] = self.url
        if self.data is not None:
            out["data"] = dict(self.data)
        if self.expires_at is not None:
            out["expiresAt"] = self.expires_at
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The reply to the `Request` with the same `id`."""

    id: str
    ok: bool = True
    data: Any = None
    """What was answered, as the host gave it; the asking tool reads `ctx.answer.data`.

    The builtin `question` takes the text, or a list of texts in the order of `data["questions"]`;
    `input` takes a mapping that fits `data["schema"]`; `approval` and `authorization` need none.
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
