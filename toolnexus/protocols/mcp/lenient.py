"""Repairs of what servers get wrong, so that one odd tool does not cost the whole listing."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, cast

from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from toolnexus.core.unicode import encodable
from toolnexus.runtime.redact import Redactor

logger = logging.getLogger("toolnexus.mcp")

_USED = frozenset(("name", "description", "inputSchema"))


def salvaged(line: bytes) -> JSONRPCMessage | None:
    """The message in a line that the SDK refuses; None when there is none.

    Halves of cut characters become U+FFFD. An answer that makes no sense becomes an error for its
    request, which would otherwise wait until its timeout.
    """
    try:
        given: Any = json.loads(line.decode("utf-8", "replace"))
        text = encodable(json.dumps(given, ensure_ascii=False))
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        return _no_answer(cast("dict[str, Any]", given))


def _no_answer(given: dict[str, Any]) -> JSONRPCError | None:
    request = given.get("id")
    if "method" in given or isinstance(request, bool) or not isinstance(request, int | str):
        return None
    what, result = "its answer is not valid", given.get("result")
    if "result" in given and not isinstance(result, dict):
        what = f"its answer must be an object, not {_KINDS.get(type(cast('object', result)), 'a number')}"
    return JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=INTERNAL_ERROR, message=what))


_KINDS: dict[type, str] = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}


def mend(message: JSONRPCMessage, redact: Redactor) -> JSONRPCMessage:
    """`message`; a listing in it is cut down to what we use, and tools without hope are dropped.

    An error is masked here already: the SDK puts its text on spans of its own.
    """
    if isinstance(message, JSONRPCError):
        message.error.message = redact(message.error.message)
    elif isinstance(message, JSONRPCResponse):
        result = message.result
        if isinstance(tools := result.get("tools"), list):
            result["tools"] = [good for tool in cast("list[Any]", tools) if (good := _mend(tool))]
        elif "structuredContent" in result and "content" not in result:
            result["content"] = []
    return message


def _mend(tool: Any) -> dict[str, Any] | None:
    given = _mapping(tool)
    name, description = given.get("name"), given.get("description") or given.get("title")
    if given.keys() <= _USED and type(name) is str and type(description) is str and name:
        if _mapping(given.get("inputSchema")).get("type") == "object":
            return given  # most are like this
    if not isinstance(name, str) or not name:
        logger.warning("dropped a tool without a name")
        return None
    schema = _mapping(given.get("inputSchema"))
    if schema.setdefault("type", "object") != "object":
        logger.warning("dropped tool %r: its arguments are %r, not an object", name, schema["type"])
        return None
    good: dict[str, Any] = {"name": name, "inputSchema": schema}
    if isinstance(description, str):
        good["description"] = description
    if _mapping(given.get("outputSchema")).get("type") == "object":
        good["outputSchema"] = given["outputSchema"]
    if (support := _mapping(given.get("execution")).get("taskSupport")) in ("optional", "required"):
        good["execution"] = {"taskSupport": support}
    return good


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


class MendedStream:
    """The SDK's read stream, with listings mended. `on_end` is called when it ends."""

    def __init__(self, inner: Any, redact: Redactor, on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._redact = redact
        self._on_end = on_end

    @property
    def last_context(self) -> Any:
        """The context of the sender: in it the SDK runs what a message starts."""
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> MendedStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return _mended(await self._inner.__anext__(), self._redact)
        except StopAsyncIteration:
            self._on_end()
            raise

    async def receive(self) -> SessionMessage | Exception:
        return _mended(await self._inner.receive(), self._redact)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> MendedStream:
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._inner.aclose()


def _mended(item: SessionMessage | Exception, redact: Redactor) -> SessionMessage | Exception:
    if isinstance(item, SessionMessage):
        item.message = mend(item.message, redact)
    return item
