"""A case with agents: the port's runtime, whose main agent has all others as its team."""

from __future__ import annotations

import fnmatch

from case import LIMITS, Case, Transport, Unsupported, call_now
from transcript import Data

import toolnexus as port
from toolnexus.agents import Agent, AgentRuntime, Budget, Handle

BUDGET = {"tokens": "max_tokens", "toolCalls": "max_tool_calls", "seconds": "max_wall_ms"}


class Team(Case):
    """An ask wakes the main agent; a conversation is one that stays."""

    async def open(self) -> None:
        if self.options.get("skills") or self.options.get("skillFolders"):
            raise Unsupported("skills of agents")
        self.tools = (await self.toolkit()).tools()
        self.threads: dict[str, Handle] = {}
        self.main: Handle | None = None
        self.before: dict[str, tuple[int, int, int, int]] = {}
        """What earlier asks of a handle took, which it counts on: turns, tokens, own tokens, runs below."""
        self.runtime = self.made()

    async def play(self, step: Data) -> Data:
        if "metrics" in step or "translate" in step or "style" in step:
            raise Unsupported("metrics, translate and style of agents")
        if "resume" in step:
            for answer in step["resume"]:
                await self.runtime.resume(port.Answer(**answer))
            assert self.main is not None
            return await self.tree(self.main)
        main = self.main = self.thread(step.get("conversation"))
        self.before[main.id] = (main.turns_total, main.usage_total, main.own_total, len(main.children))
        woken = self.runtime.wake(main, step["ask"])
        if not woken.ok:
            raise RuntimeError(woken.error)
        await self.runtime.wait(main)
        return await self.tree(main)

    def cancel(self) -> None:
        def stop(handle: Handle) -> None:
            for child in handle.children:
                stop(child)
            self.runtime.interrupt(handle)

        if self.main is not None:
            stop(self.main)

    def made(self) -> AgentRuntime:
        specs: list[Data] = self.message["agents"]
        made = {spec["name"]: self.agent(spec["name"], spec) for spec in specs}
        for spec in specs:
            offered = any(fnmatch.fnmatchcase("task", wanted) for wanted in spec.get("tools", ["task"]))
            if offered or "agents" in spec:
                made[spec["name"]].team = [made[name] for name in spec.get("agents", made)]
        main = self.agent("main", self.options)
        main.team = list(made.values())
        style = self.options.get("style", "openai")
        llm = {
            "base_url": self.message["endpoint"][style],
            "style": style,
            "model": self.options.get("model", "scripted"),
            "api_key": "none",
        }
        return AgentRuntime(
            registry=main.registry(), transport=Transport(), llm=llm, store=self.store, hooks=self.hooks
        )

    def agent(self, name: str, spec: Data) -> Agent:
        limits: Data = {BUDGET[key]: value for key, value in spec.get("budget", {}).items()}
        if "max_wall_ms" in limits:
            limits["max_wall_ms"] *= 1000
        if "maxTurns" in spec:
            limits["max_turns"] = spec["maxTurns"]
        if "maxSubAgentDepth" in self.options:
            limits["max_depth"] = self.options["maxSubAgentDepth"] + 1  # the port's root is above main
        return Agent(
            name,
            does=spec.get("description", ""),
            soul=spec.get("systemPrompt"),
            uses={"tools": self.tools_of(spec)},
            model=spec.get("model"),
            budget=Budget(**limits) if limits else None,
            wait_for=self.person(name) if spec.get("onRequest") else None,
            on_spawn=self.spawned,
        )

    def tools_of(self, spec: Data) -> list[port.Tool]:
        if "tools" not in spec:
            return self.tools
        if isinstance(spec["tools"], dict):
            raise Unsupported("filters of tools in agents")
        names = [tool.name for tool in self.tools]
        for wanted in spec["tools"]:
            if wanted != "task" and not fnmatch.filter(names, wanted):
                raise Unsupported("names of tools in agents")
        return [tool for tool in self.tools if any(fnmatch.fnmatchcase(tool.name, w) for w in spec["tools"])]

    def spawned(self, handle: Handle) -> None:
        """Called in the call of `task` that starts the run."""
        above = None if handle.parent is None else self.paths.get(handle.parent.id)
        self.paths[handle.id] = "main" if above is None else f"{above}/{handle.defn.name}.{call_now.get()}"

    def thread(self, conversation: str | None) -> Handle:
        if conversation is not None and conversation in self.threads:
            return self.threads[conversation]
        handle = self.runtime.spawn(self.runtime.root, "main")
        if not isinstance(handle, Handle):
            raise RuntimeError(handle.error)
        if conversation is not None:
            self.threads[conversation] = handle
        return handle

    async def tree(self, handle: Handle) -> Data:
        """The result of a run and those below it."""
        last, path = handle.last_result, self.paths[handle.id]
        status = "pending" if handle.state == "suspended" else last.status if last else "error"
        messages = self.messages(await self.runtime.conversation_store.get(handle.id) or [], path)
        waits = last.pending if status == "pending" and last else None
        turns, tokens, own, runs = self.before.get(handle.id, (0, 0, 0, 0))
        children = [await self.tree(child) for child in handle.children[runs:]]
        turns = handle.turns_total - turns
        requests = turns + sum(child["usage"]["requests"] for child in children)
        return {
            "status": status if status in ("done", "pending", "incomplete") else "error",
            "limit": last.limit and LIMITS.get(last.limit, last.limit) if last else None,
            "text": last.text if last else None,
            "error": last.text if last and status == "error" else None,
            "path": path,
            "turns": turns,
            "toolCalls": _calls_of_the_last_ask(messages),
            "messages": messages,
            "pending": [self.question(waits, path)] if waits else [],
            "usage": {"totalTokens": handle.usage_total - tokens, "requests": requests},
            "ownUsage": {"totalTokens": handle.own_total - own, "requests": turns},
            "subAgents": children,
        }


def _calls_of_the_last_ask(messages: list[Data]) -> int:
    roles = [message["role"] for message in messages]
    last = max((place for place, role in enumerate(roles) if role == "user"), default=0)
    return roles[last:].count("tool")
