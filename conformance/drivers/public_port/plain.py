"""A case without agents: the port's client and its toolkit."""

from __future__ import annotations

from case import LIMITS, Case, Transport, Unsupported
from transcript import Data

import toolnexus as port


class Plain(Case):
    """One client for each style, over one store."""

    async def open(self) -> None:
        if self.options.get("budget"):
            raise Unsupported("budget of a client")
        self.clients: dict[str, port.Client] = {}
        self.tools = await self.toolkit()
        self.client(None)

    async def play(self, step: Data) -> Data:
        if "resume" in step:
            raise Unsupported("resume of a client")
        client = self.client(step.get("style"))
        if "metrics" in step:
            return {"text": client.metrics()}
        if "translate" in step:
            return await translated(client, step["translate"])
        result = await client.ask(step["ask"], self.tools, id=step.get("conversation"))
        usage = {
            "promptTokens": result.usage["prompt_tokens"],
            "completionTokens": result.usage["completion_tokens"],
            "totalTokens": result.usage["total_tokens"],
            "requests": result.turns,
        }
        return {
            "status": result.status,
            "limit": result.limit and LIMITS.get(result.limit, result.limit),
            "text": result.text,
            "path": "main",
            "turns": result.turns,
            "toolCalls": result.tool_call_count,
            "messages": self.messages(result.messages, "main"),
            "pending": [self.question(result.pending, "main")] if result.pending else [],
            "usage": usage,
            "ownUsage": usage,
            "subAgents": [],
        }

    def cancel(self) -> None:
        pass  # whoever awaits the client is cancelled, and there is nothing else

    def client(self, style: str | None) -> port.Client:
        style = style or self.options.get("style", "openai")
        if style not in self.clients:
            given: Data = {"max_turns": self.options["maxTurns"]} if "maxTurns" in self.options else {}
            self.clients[style] = port.create_client(
                base_url=self.message["endpoint"][style],
                style=style,
                model=self.options.get("model", "scripted"),
                api_key="none",
                system_prompt=self.options.get("systemPrompt"),
                hooks=self.hooks,
                store=self.store,
                wait_for=self.person("main") if self.options.get("onRequest") else None,
                http_transport=Transport(),
                **given,
            )
        return self.clients[style]


async def translated(client: port.Client, request: Data) -> Data:
    """One chat completion request, and the completion."""
    known = ("messages", "tools", "tool_choice", "max_tokens")
    if other := sorted(set(request) - set(known)):
        raise Unsupported(f"translate with {', '.join(other)}")
    given = {key: request[key] for key in known if key in request}
    result = await client.translate(given.pop("messages"), **given)
    message: Data = {"role": "assistant", "content": result.text or None}
    if result.tool_calls:
        message["tool_calls"] = result.tool_calls_json()
    choice = {"index": 0, "message": message, "finish_reason": result.finish_reason}
    return {"completion": {"object": "chat.completion", "choices": [choice], "usage": result.usage}}
