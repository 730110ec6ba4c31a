"""`host`: whoever runs the graph."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

from toolnexus.core.content import part_from_wire, part_to_wire
from toolnexus.core.usage import Usage
from toolnexus.graph.context import NodeContext
from toolnexus.graph.scripts.bindings import Binding
from toolnexus.graph.scripts.bridges.arguments import invalid, items, shown, table, text, whole
from toolnexus.graph.scripts.bridges.deltas import delta_of
from toolnexus.graph.scripts.invocation import Function, Invocation

logger = logging.getLogger("toolnexus.graph")

LONGEST_SUBJECT = 1024
"""Bytes of a subject."""
_ASKED = ("parts", "schema", "source", "metadata")
_USED = ("input", "output", "total")


def host(invocation: Invocation) -> Binding:
    """The global. Without a host its functions do nothing and give null."""
    it = _Host(invocation.ctx, invocation.name)
    return Binding(
        "host",
        {
            "publish": Function(it.publish, "err"),
            "emit": it.emit,
            "checkInterrupt": it.check_interrupt,
            "askUser": Function(it.ask_user, "value, err"),
            "reportUsage": Function(it.report_usage, "err"),
            "drainSteer": Function(it.drain_steer, "value, err"),
        },
    )


class _Host:
    def __init__(self, ctx: NodeContext, source: str) -> None:
        self._ctx = ctx
        self._source = source

    async def publish(self, subject: Any, payload: Any = None) -> None:
        name = text(subject, "the subject")
        if len(name.encode(errors="replace")) > LONGEST_SUBJECT or any(c.isspace() for c in name):
            raise invalid(f"the subject {shown(name)} has blanks, or more than {LONGEST_SUBJECT} bytes")
        await self._ctx.publish(name, table(payload, "the payload"))

    async def emit(self, type: Any, payload: Any = None) -> None:
        kind = text(type, "the type")
        if not self._ctx.listening:
            return
        try:
            delta = delta_of(kind, payload)
        except (ValueError, KeyError, RecursionError) as error:
            logger.debug("node %r: a payload is no %r and was skipped: %s", self._ctx.node_id, kind, error)
            return
        try:
            await self._ctx.emit(delta)
        except Exception as error:  # a preview: nothing depends on it
            logger.warning("node %r: a delta of type %r was dropped: %s", self._ctx.node_id, kind, error)

    def check_interrupt(self) -> dict[str, str] | None:
        interrupt = self._ctx.check_interrupt()
        return None if interrupt is None else {"cause": interrupt.cause, "detail": interrupt.detail}

    async def ask_user(self, request: Any = None) -> Mapping[str, Any] | None:
        asked = table(request, "the question", _ASKED)
        reply = await self._ctx.ask_user(
            {
                "parts": _parts(asked.get("parts")),
                "source": _source(asked.get("source"), self._source),
                **_schema(asked.get("schema")),
                "metadata": _metadata(asked.get("metadata")),
            }
        )
        return None if reply is None else {"parts": [], "metadata": {}, **reply}

    async def report_usage(self, usage: Any = None) -> None:
        given = table(usage, "the usage", _USED)
        tokens = {key: whole(given.get(key) or 0, f"usage.{key}") for key in _USED}
        rest = max(0, tokens["total"] - tokens["input"] - tokens["output"])
        await self._ctx.report_usage(
            Usage(prompt_tokens=tokens["input"] + rest, completion_tokens=tokens["output"])
        )

    def drain_steer(self) -> list[dict[str, Any]]:
        return [message.to_wire() for message in self._ctx.drain_steer()]


def _parts(given: Any) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for n, part in enumerate(items(given or [], "the parts of the question")):
        try:
            out.append(part_to_wire(part_from_wire(part)))
        except ValueError as error:
            raise invalid(f"parts[{n}]: {error}") from error
    return out


def _source(given: Any, default: str) -> str:
    return default if given is None else text(given, "the source of the question")


def _schema(given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, str | Mapping):
        raise invalid(f"the schema must be an object, or its JSON as text, not {shown(given)}")
    return {"schema": cast("Any", given)}


def _metadata(given: Any) -> dict[str, str]:
    metadata = table(given, "the metadata")
    if wrong := [key for key, value in metadata.items() if not isinstance(value, str)]:
        raise invalid(f"metadata.{wrong[0]} must be text, not {shown(metadata[wrong[0]])}")
    return dict(metadata)
