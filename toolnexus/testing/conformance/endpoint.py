"""The scripted models of a case behind HTTP, in the words of either style.

What it is: for implementations whose models can only be an address, and for cases about what is on the wire.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

from toolnexus.testing.conformance import said
from toolnexus.testing.conformance.fixture import Data
from toolnexus.testing.endpoint import ScriptedEndpoint
from toolnexus.testing.turns import Turn

PATH_HEADER = "conformance-path"
"""Says the path of the run that asks; without it, `main`."""

Reply = Callable[[Data], Awaitable[Data]]

_STOPS = {
    "openai": {"stop": "stop", "tool_calls": "tool_calls", "length": "length", "refusal": "content_filter"},
    "anthropic": {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "refusal": "refusal"},
}


class Endpoint(ScriptedEndpoint):
    """Answers as `reply` says, which gets each request as fixtures speak of it."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(self._turn_of)
        self._say = reply
        self._turns: Counter[str] = Counter()
        self.malformed: list[str] = []
        """Requests that no endpoint of the style would understand."""

    @property
    def addresses(self) -> Data:
        """The base URL for each style."""
        return {style: self.url for style in _STOPS}

    def new_step(self) -> None:
        """Turns count from one again."""
        self._turns.clear()

    async def _turn_of(self, body: Data) -> Turn:
        seen = next(seen for seen in reversed(self.requests) if seen.body is body)
        style = "anthropic" if seen.path.endswith("/messages") else "openai"
        path = seen.headers.get(PATH_HEADER, "main")
        self._turns[path] += 1
        try:
            neutral = (_from_anthropic if style == "anthropic" else _from_openai)(body)
        except (KeyError, TypeError, AttributeError) as error:
            self.malformed.append(f"{path}, turn {self._turns[path]}: {error!r} in the {style} style")
            return Turn(status=400, body='{"error": {"message": "the request is malformed"}}')
        asked = said.request(
            {
                **neutral,
                "agent": path.rsplit("/", 1)[-1].split(".")[0],
                "path": path,
                "turn": self._turns[path],
                "model": seen.model,
                "body": body,
            }
        )
        return _turn(await self._say(asked), style)


def _turn(reply: Data, style: str) -> Turn:
    if (error := reply.get("error")) is not None:
        if "status" not in error:
            return Turn(drop_after=0)
        return Turn(status=error["status"], body=json.dumps({"error": {"message": error["message"]}}))
    calls = [{"id": c["id"], "name": c["name"], "args": _args(c["arguments"])} for c in reply["calls"]]
    usage = reply["usage"]
    return Turn(
        text=reply["text"] or None,
        calls=calls,
        finish=_STOPS[style][reply["stop"]],
        usage=None if usage is None else (_anthropic_usage if style == "anthropic" else _openai_usage)(usage),
    )


def _args(written: str) -> Any:
    """An object is one on the wire of Anthropic; what is none stays the text that it is."""
    try:
        value: Any = json.loads(written)
    except ValueError:
        return written
    return cast(Any, value) if isinstance(value, dict) else written


def _openai_usage(usage: Data) -> Data:
    prompt, completion = usage.get("promptTokens", 0), usage.get("completionTokens", 0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": usage.get("cachedTokens", 0)},
        "completion_tokens_details": {"reasoning_tokens": usage.get("reasoningTokens", 0)},
    }


def _anthropic_usage(usage: Data) -> Data:
    read, written = usage.get("cachedTokens", 0), usage.get("cacheWriteTokens", 0)
    return {
        "input_tokens": usage.get("promptTokens", 0) - read - written,
        "output_tokens": usage.get("completionTokens", 0),
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }


def _from_openai(body: Data) -> Data:
    system = [_words(m.get("content")) for m in body["messages"] if m["role"] == "system"]
    messages: list[Data] = []
    for message in body["messages"]:
        text = _words(message.get("content"))
        if message["role"] == "tool":
            messages.append({"role": "tool", "output": text})
        elif message["role"] != "system":
            calls = [call["function"] for call in message.get("tool_calls") or ()]
            messages.append({"role": message["role"], "text": text, "calls": calls})
    tools = [tool["function"] for tool in body.get("tools") or ()]
    return {"system": "\n\n".join(system), "messages": messages, "tools": tools}


def _from_anthropic(body: Data) -> Data:
    messages = [part for message in body["messages"] for part in _blocks(message)]
    return {"system": _words(body.get("system")), "messages": messages, "tools": body.get("tools") or []}


def _blocks(message: Data) -> Iterator[Data]:
    content = message["content"]
    if message["role"] not in ("user", "assistant"):
        raise KeyError(message["role"])
    blocks: list[Data] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in blocks:
        if block["type"] == "tool_result":
            yield {"role": "tool", "output": _words(block.get("content"))}
    calls = [
        {"name": b["name"], "arguments": json.dumps(b["input"])} for b in blocks if b["type"] == "tool_use"
    ]
    text = _words([block for block in blocks if block["type"] == "text"])
    if text or calls:
        yield {"role": message["role"], "text": text, "calls": calls}


def _words(content: Any) -> str:
    """The text of a content that is one, or a list of parts."""
    if isinstance(content, list):
        parts = cast("list[Data]", content)
        return "\n".join([part["text"] for part in parts if part.get("type") == "text"])
    return content or ""
