"""Client: the door. Holds defaults, opens and closes what runs need; owns no behaviour."""

from __future__ import annotations

import os
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from toolnexus.core.events import Event
from toolnexus.core.messages import Message, Prompt
from toolnexus.core.options import count, expect, items
from toolnexus.core.result import RunResult
from toolnexus.core.usage import Budget
from toolnexus.engine.agent import Agent, ShouldContinue, as_messages
from toolnexus.engine.conversations import Conversation, Conversations
from toolnexus.engine.environment import ENVIRONMENT, Environment
from toolnexus.engine.life import Life
from toolnexus.engine.models import Models
from toolnexus.engine.options import check_store, run_settings
from toolnexus.engine.roster import Roster, registry
from toolnexus.engine.runner import LocalRunner
from toolnexus.engine.scope import ToolSpec, as_tool
from toolnexus.engine.stream import Stream, raise_error
from toolnexus.errors import ConfigError
from toolnexus.models.base import Model
from toolnexus.runtime.context import (
    DEPS,
    ContextKey,
    Emitter,
    Run,
    RunContext,
    Runnable,
)
from toolnexus.runtime.outbox import Outbox
from toolnexus.runtime.questions import Asker, OnRequest
from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.spill import Spill
from toolnexus.stores.base import Store
from toolnexus.stores.memory import MemoryStore
from toolnexus.tools.builtin.environment import SECRET_ENV
from toolnexus.tools.builtin.options import OPTIONS, BuiltinOptions
from toolnexus.tools.builtin.paths import CLOSED_ROOTS, READ_ROOTS
from toolnexus.tools.builtin.survivors import PROCESSES, ProcessGroups
from toolnexus.tools.filters import FilterSpec
from toolnexus.tools.gather import Sources
from toolnexus.tools.mcp_config import mcp_report
from toolnexus.tools.toolkit import Toolkit

if TYPE_CHECKING:
    from toolnexus.tools.skills import SkillDef, SkillIssue

MAIN = "main"


class Client:
    """Gathers tools from everywhere, talks to a model, and lets it delegate.

    All options are keyword-only. `async with Client(…) as client:` opens every source now and
    closes it at the end; a bare client opens at its first ask and wants `aclose()`, or `close()`
    after `ask_sync`. Raises `ConfigError` for whatever can be known to be wrong at this point.
    A client belongs to the event loop of its first use.

    * `model`: `"provider:name"` or a `Model`; None: `TOOLNEXUS_MODEL` of the environment.
    * `base_url`, `api_key`, `headers`: another endpoint of that provider's style, its key and extra
      headers; without `api_key` the variable of a known host gives it.
    * `system_prompt`: the client's own instructions; it is never stored in a conversation.
    * `tools`: a list of functions, `Tool` and `ToolSource` objects.
    * `mcp`: the file (JSON or TOML) of MCP servers, or a mapping of the same shape.
    * `skills`: a folder, a `SkillDef`, a list of these, or `{"paths", "filter", "sample_limit"}`.
    * `builtins`: True (all), False, a list of names and globs, `{name: bool}`, or a mapping of `tools`
      (any of these), `sandbox` (of `bash`: True, False, `"auto"`), `sandbox_network`, `webfetch_allow`.
    * `agents`: whom `task` may delegate to. With any, `task` is offered also when `builtins` is False
      or a list, unless `builtins={"task": False}`.
    * `max_turns`: model requests per run, unless an agent says otherwise.
    * `max_sub_agent_depth`, `max_sub_agents`: how deep and how many runs one ask may start below it.
    * `allowed_models`: the models that `task` may name; None: those of the client and its agents.
    * `budget`: a `Budget` for each ask and everything below; its `concurrency` holds for the tree.
    * `should_continue`: gets the RunResult so far at a natural stop only (never at a limit); true
      sends a nudge and goes on.
    * `hooks`: a list of objects with methods of `Hooks`; they act in every run below, too.
    * `on_request`: gets a `Request`, plain or async, and returns an `Answer`, one at a time. None: a
      question ends the ask `pending`.
    * `store`: where conversations are kept; None: in memory, as long as the client lives.
    * `workdir`: the folder of the file tools; None: the current one.
    """

    def __init__(
        self,
        *,
        model: str | Model | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        system_prompt: str = "",
        tools: Sequence[ToolSpec] = (),
        mcp: str | Path | Mapping[str, Any] | None = None,
        skills: Any = None,
        builtins: FilterSpec | Mapping[str, Any] = True,
        agents: Sequence[Runnable] = (),
        max_turns: int = 10,
        max_sub_agent_depth: int = 3,
        max_sub_agents: int = 16,
        allowed_models: Sequence[str | Model] | None = None,
        budget: Budget | None = None,
        should_continue: ShouldContinue | None = None,
        hooks: Sequence[object] = (),
        on_request: OnRequest | None = None,
        store: Store | None = None,
        workdir: str | Path | None = None,
    ) -> None:
        count("max_turns", max_turns, 1)
        count("max_sub_agent_depth", max_sub_agent_depth, 0)
        count("max_sub_agents", max_sub_agents, 0)
        self._settings = run_settings(
            "",
            model=model,
            system_prompt=system_prompt,
            budget=budget,
            hooks=hooks,
            on_request=on_request,
            should_continue=should_continue,
            max_turns=max_turns,
            workdir="." if workdir is None else workdir,
        )
        assert self._settings.workdir is not None
        self._workdir = self._settings.workdir
        if not self._workdir.is_dir():
            raise ConfigError(f"workdir {str(workdir)!r} is no folder")
        check_store(store)
        tools = items("tools", tools, "give a list, such as tools=[function]")
        agents = items("agents", agents, "give a list, such as agents=[agent]")
        if allowed_models is not None:
            allowed_models = items("allowed_models", allowed_models, "give a list of models")
        self._max_depth = max_sub_agent_depth
        self._max_sub_agents = max_sub_agents
        self._concurrency = (budget or Budget()).concurrency
        self._on_request = on_request

        spec = model if model is not None else os.environ.get("TOOLNEXUS_MODEL") or None
        self._models = Models(spec, base_url=base_url, api_key=api_key, headers=headers)
        self._builtins = BuiltinOptions.of(builtins)
        host = [as_tool(entry, "tools") for entry in tools]
        self._sources = Sources(mcp=mcp, skills=skills, builtins=self._builtins.names, host=host)
        known = registry(agents)
        self._main = Agent(
            name=MAIN,
            system_prompt=system_prompt,
            agents=tuple(known),
            should_continue=should_continue,
        )
        self._environment = Environment(models=self._models, sources=self._sources, registry=known)
        self._redact = Redactor()
        self._roster = Roster(self._main, self._environment, self._redact)
        offered = [m for m in (self._models.default, *self._roster.models) if m is not None]
        self._environment.allowed_models = self._models.allowed(
            offered if allowed_models is None else allowed_models
        )
        for secret in (*self._models.secrets, *self._sources.secrets):
            self._redact.add(secret)

        self._spill = Spill()
        self._processes = ProcessGroups()
        self._store = store or MemoryStore()
        self._runner = LocalRunner()
        self._asker: Asker | None = None
        self._conversations = Conversations(self._store)
        ends = (self._store.aclose, self._models.aclose, self._sources.aclose, self._conversations.settle)
        self._life = Life(start=self._start, ends=ends, release=self._release)

    # ---- asking

    async def ask(self, prompt: Prompt, *, conversation: str | None = None, deps: Any = None) -> RunResult:
        """Run the client's own loop on `prompt` and return what it gave.

        `prompt` is text, a list of text and media parts, or messages. With `conversation` the
        stored messages come first and the new ones are kept; without, nothing is. `deps` is handed
        to tools as `ctx.deps`.

        A limit or an open question is a `status` of the result. Raises `ModelError` when the model
        fails (its `.result` holds the work so far), `ConfigError`, `StoreError`, and
        `CancelledError` when the awaiting task is cancelled: everything below is stopped then, and
        the conversation keeps what was done.
        """
        return raise_error(await self._execute(self._main, as_messages(prompt), conversation, deps))

    async def run(
        self, target: Runnable | str, input: Any, *, conversation: str | None = None, deps: Any = None
    ) -> RunResult:
        """Like `ask`, with another target: an agent (or its registered name), or any Runnable."""
        return raise_error(await self._execute(self._target(target), input, conversation, deps))

    @overload
    def stream(
        self, input: Prompt, *, conversation: str | None = None, deps: Any = None
    ) -> AbstractAsyncContextManager[Stream]: ...
    @overload
    def stream(
        self, input: Any, *, target: Runnable | str, conversation: str | None = None, deps: Any = None
    ) -> AbstractAsyncContextManager[Stream]: ...
    @asynccontextmanager
    async def stream(
        self,
        input: Any,
        *,
        target: Runnable | str | None = None,
        conversation: str | None = None,
        deps: Any = None,
    ) -> AsyncGenerator[Stream]:
        """The same run, observed: `async with client.stream(…) as s: async for event in s: …`.

        After the last event `s.result` is the RunResult. A failure of the run is raised when the
        block ends. Leaving early cancels the run and raises nothing; `s.result` then holds what it
        had done.
        """
        outbox = Outbox()
        chosen = self._main if target is None else self._target(target)
        _check_id(conversation)
        given = as_messages(input) if target is None else input
        stream = Stream(outbox, self._execute(chosen, given, conversation, deps, reader=outbox.put))
        try:
            yield stream
        finally:
            await stream.leave()
        stream.raise_failure()

    def ask_sync(self, prompt: Prompt, *, conversation: str | None = None, deps: Any = None) -> RunResult:
        """`ask` for code without an event loop (scripts, notebooks); runs on a thread of its own.

        Call `close()` at the end, or use `with Client(…) as client:`.
        """
        return self._life.sync(
            lambda: self.ask(prompt, conversation=conversation, deps=deps), "ask_sync", "client.ask(…)"
        )

    # ---- conversations

    @property
    def store(self) -> Store:
        """Where conversations are kept."""
        return self._store

    def conversation(self, id: str) -> Conversation:
        """A handle: `messages`, `ask`, `pending`, `discard_pending`, `delete`."""
        _check_id(id)
        return Conversation(id, self._conversations, self.ask)

    def steer(self, conversation: str, messages: Prompt) -> None:
        """Say something to the run in flight of a conversation; it reads it before its next turn.

        Raises `RunError` when no run is in flight.
        """
        self._conversations.steer(conversation, as_messages(messages))

    # ---- tools

    @property
    def toolkit(self) -> Toolkit:
        """All tools of the client. Those of servers are there once it is open."""
        task = self._environment.task(self._main)
        tools = [*self._environment.toolkit, *([task] if task is not None else [])]
        return Toolkit(tools, context=self._context)

    @property
    def agents(self) -> tuple[Runnable, ...]:
        """Whom `task` may delegate to, sorted by name."""
        return tuple(self._environment.targets(self._main).values())

    def tools_of(self, agent: Agent) -> Toolkit:
        """What `agent` is offered when the client's own run delegates to it."""
        return Toolkit(self._environment.offer(agent, (), deepest=self._max_depth <= 1).tools)

    def agents_of(self, agent: Agent) -> tuple[Runnable, ...]:
        """Whom `agent` may delegate to when the client's own run delegates to it, sorted by name."""
        may = "task" in self.tools_of(agent).names()
        return tuple(self._environment.targets(agent).values()) if may else ()

    @property
    def skills(self) -> list[SkillDef]:
        """The skills that are loaded, sorted by name."""
        return list(self._sources.skills.skill_set.skills) if self._sources.skills is not None else []

    def mcp_status(self) -> dict[str, dict[str, Any]]:
        """`{server: {"status", "reason"}}`: `connected`, `failed`, `disabled` or `needs_auth`."""
        return {s.name: dict(s.status) for s in self._sources.servers}

    @property
    def mcp_report(self) -> tuple[str, ...]:
        """What MCP files say that changes nothing here, a line each: keys of other hosts, mostly."""
        return mcp_report(s.config for s in self._sources.servers)

    @property
    def skill_report(self) -> list[SkillIssue]:
        """What was wrong with skill files: `{path, reason, detail}`, warnings too."""
        return self._sources.skills.report if self._sources.skills is not None else []

    # ---- life

    async def __aenter__(self) -> Client:
        try:
            await self._life.open()
        except BaseException:  # the block is not entered, so nobody else will close
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Client:
        try:
            self._life.sync(self._life.open, "with client", "client.ask(…)")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def aclose(self) -> None:
        """Stop the asks in flight, then close every source and connection. Idempotent.

        What they had done is stored first; whoever awaits one gets a `RunError` with its result.
        Cancelled, it lets its caller go and closes all the same.
        """
        await self._life.aclose()

    def close(self) -> None:
        """`aclose` for a client that was used with `ask_sync`. Idempotent."""
        self._life.close()

    def __del__(self) -> None:
        life = getattr(self, "_life", None)  # missing when an option was wrong
        if life is not None and life.forgotten():
            warnings.warn(f"unclosed {type(self).__name__}: call aclose()", ResourceWarning, stacklevel=2)

    # ---- inside

    def _target(self, target: Runnable | str) -> Runnable:
        expect("target", target, (str, Runnable), "give an Agent, its registered name, or another Runnable")
        return self._roster.target(target)

    async def _execute(
        self,
        target: Runnable,
        input: Any,
        conversation: str | None,
        deps: Any,
        reader: Callable[[Event], None] | None = None,
    ) -> RunResult:
        _check_id(conversation)
        await self._life.open()
        run, host = self._new_run(reader), self._host(deps)

        async def body(history: Sequence[Message], inbox: list[Message]) -> RunResult:
            return await self._runner.start(
                run,
                target,
                input,
                settings=self._settings,
                host=host,
                history=history,
                asker=self._asker,
                inbox=inbox,
            )

        async with self._life.asks.one():
            if conversation is None:
                return await body((), [])
            return await self._conversations.ask(conversation, body)

    def _new_run(self, reader: Callable[[Event], None] | None = None) -> Run:
        return Run(
            runner=self._runner,
            emit=Emitter(reader) if reader is not None else None,
            max_depth=self._max_depth,
            max_sub_agents=self._max_sub_agents,
            concurrency=self._concurrency,
            redact=self._redact,
            spill=self._spill,
        )

    def _host(self, deps: Any = None) -> dict[ContextKey[Any], Any]:
        skills = self._sources.skills
        return {
            ENVIRONMENT: self._environment,
            DEPS: deps,
            READ_ROOTS: skills.roots if skills is not None else (),
            CLOSED_ROOTS: skills.closed if skills is not None else (),
            PROCESSES: self._processes,
            SECRET_ENV: lambda: self._sources.secret_names,
            OPTIONS: self._builtins,
        }

    @asynccontextmanager
    async def _context(self) -> AsyncGenerator[RunContext]:
        """Where a tool runs that the host calls itself: open, limited, and ended with the client."""
        await self._life.open()
        async with self._life.asks.one():
            yield self._runner.root(
                self._new_run(), self._main, settings=self._settings, host=self._host(), asker=self._asker
            )

    async def _start(self, again: bool) -> None:
        """Open the sources. `again`: the loop they were opened on is gone."""
        self._asker = Asker(self._on_request) if self._on_request is not None else None
        if again:
            await self._sources.aclose()
        try:
            await self._sources.open(self._environment.refresh)
            self._environment.refresh()
            self._roster.opened()
        except BaseException:
            await self._sources.aclose()
            raise

    def _release(self) -> None:
        self._processes.close()
        self._spill.close()


async def run(
    target: Runnable, input: Any, *, model: str | Model | None = None, deps: Any = None
) -> RunResult:
    """Run `target` once, without a client to keep: `await toolnexus.run(agent, "…")`.

    `model` is for agents that name none; the builtins are there for agents that ask for them.
    Returns and raises what `Client.run` does.
    """
    async with Client(model=model) as client:
        return await client.run(target, input, deps=deps)


def _check_id(conversation: object) -> None:
    if conversation is not None:
        expect("conversation", conversation, str, "give its id as text, such as str(user_id)")
