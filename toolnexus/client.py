"""Client: the door. Holds defaults, opens and closes what runs need; owns no behaviour."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, overload

import toolnexus
from toolnexus.core.messages import Prompt
from toolnexus.core.options import count, expect, items
from toolnexus.core.result import RunResult
from toolnexus.core.suspension import Answer
from toolnexus.core.usage import Budget, Price
from toolnexus.engine.agent import Agent, ShouldContinue, as_messages
from toolnexus.engine.asked import MAIN, Asked
from toolnexus.engine.conversation_id import check_id
from toolnexus.engine.environment import Environment
from toolnexus.engine.life import Life, Openable
from toolnexus.engine.models import Models
from toolnexus.engine.options import check_store, run_settings
from toolnexus.engine.overview import Overview
from toolnexus.engine.roster import Roster, budgets, registry
from toolnexus.engine.scope import ToolSpec, as_tool
from toolnexus.engine.stream import Stream, observed, raise_error
from toolnexus.errors import ConfigError
from toolnexus.models.base import Model
from toolnexus.runtime.context import (
    DEPS,
    SCRATCHPAD,
    ContextKey,
    Runnable,
)
from toolnexus.runtime.counts import Counts
from toolnexus.runtime.questions import Asker, OnRequest
from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.spill import Spill
from toolnexus.stores.base import Store
from toolnexus.stores.memory import MemoryStore
from toolnexus.tools.builtin.options import BuiltinOptions
from toolnexus.tools.builtin.survivors import ProcessGroups
from toolnexus.tools.filters import FilterSpec
from toolnexus.tools.gather import Sources
from toolnexus.tools.toolkit import Toolkit

if TYPE_CHECKING:
    from toolnexus.models.prices import Prices
    from toolnexus.tools.instructions import Instructions


class Client(Openable, Overview, Asked):
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
      (any of these), `sandbox` (of `bash`: True, False, `"auto"`), `sandbox_network`, `webfetch_allow`,
      `task_continue` (True: a model can go on with an earlier run of an agent), `task_background` (True:
      it can leave runs in the background).
    * `agents`: whom `task` may delegate to. With any, `task` is offered also when `builtins` is False
      or a list, unless `builtins={"task": False}`.
    * `max_turns`: model requests per run, unless an agent says otherwise.
    * `max_sub_agent_depth`, `max_sub_agents`: how deep and how many runs one ask may start below it.
    * `max_declared_tools`: of more tools than this, those of servers (and functions beyond the number) are
      not declared; the model finds them with `tool_search`. None: all are declared.
    * `allowed_models`: the models that `task` may name; None: those of the client and its agents.
    * `budget`: a `Budget` for each ask and everything below; its `concurrency` holds for the tree.
    * `prices`: True, or a `Price` by model name: for `usage.cost`. A `Budget(cost=…)` brings it along.
    * `should_continue`: gets the RunResult so far at a natural stop only (never at a limit); true
      sends a nudge and goes on.
    * `hooks`: a list of objects with methods of `Hooks`; they act in every run below, too.
    * `on_request`: gets a `Request`, plain or async, and returns an `Answer`, one at a time. None: a
      question ends the ask `pending`.
    * `permissions`: rules about calls, `{"bash(git *)": "allow", "bash": "ask", "write": "deny"}`.
    * `store`: where conversations are kept; None: in memory, as long as the client lives.
    * `workdir`: the folder of the file tools; None: the current one.
    * `instructions`: an `AGENTS.md` that goes below the system prompt; True: the nearest `AGENTS.md` or
      `CLAUDE.md` from `workdir` up to the root of its repository.
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
        mcp: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        skills: Any = None,
        builtins: FilterSpec | Mapping[str, Any] = True,
        agents: Sequence[Runnable] = (),
        max_turns: int = 10,
        max_sub_agent_depth: int = 3,
        max_sub_agents: int = 16,
        max_declared_tools: int | None = None,
        allowed_models: Sequence[str | Model] | None = None,
        budget: Budget | None = None,
        prices: bool | Mapping[str, Price] = False,
        should_continue: ShouldContinue | None = None,
        hooks: Sequence[object] = (),
        on_request: OnRequest | None = None,
        permissions: Mapping[str, str] | None = None,
        store: Store | None = None,
        workdir: str | os.PathLike[str] | None = None,
        instructions: bool | str | os.PathLike[str] = False,
    ) -> None:
        count("max_turns", max_turns, 1)
        count("max_sub_agent_depth", max_sub_agent_depth, 0)
        count("max_sub_agents", max_sub_agents, 0)
        if max_declared_tools is not None:
            count("max_declared_tools", max_declared_tools, 0)
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
            permissions=permissions,
        )
        assert self._settings.workdir is not None
        self._workdir = self._settings.workdir
        if not os.path.isdir(self._workdir):
            raise ConfigError(f"workdir {str(workdir)[:200]!r} is no folder; give the path of one")
        self._instructions: Instructions | None = None
        prompt = system_prompt
        if instructions is not False:
            from toolnexus.tools.instructions import read_instructions, with_instructions

            self._instructions = read_instructions(instructions, self._workdir)
            prompt = with_instructions(system_prompt, self._instructions)
        check_store(store)
        tools = items("tools", tools, "give a list, such as tools=[function]")
        agents = items("agents", agents, "give a list, such as agents=[agent]")
        if allowed_models is not None:
            allowed_models = items("allowed_models", allowed_models, "give a list of models")
        self._may_nest = max_sub_agent_depth > 1
        self._on_request = on_request

        spec = model if model is not None else os.environ.get("TOOLNEXUS_MODEL") or None
        self._models = Models(spec, base_url=base_url, api_key=api_key, headers=headers)
        self._builtins = BuiltinOptions.of(builtins)
        host = [as_tool(entry, "tools") for entry in tools]
        self._sources = Sources(mcp=mcp, skills=skills, builtins=self._builtins.names, host=host)
        known = registry(agents)
        self._main = Agent(
            name=MAIN, system_prompt=prompt, agents=tuple(known), should_continue=should_continue
        )
        self._environment = Environment(models=self._models, sources=self._sources, registry=known)
        self._environment.max_declared_tools = max_declared_tools
        self._environment.task_options = self._builtins.of_task
        self._redact = Redactor()
        self._counts = Counts()
        ceilings = [*budgets([*agents, *host], known), *([] if budget is None else [budget])]
        bounded = any(ceiling.cost is not None for ceiling in ceilings)
        self._prices: Prices | None = None
        if bounded or prices is not False:
            from toolnexus.models.prices import Prices

            self._prices = Prices(prices or True)
        self._roster = Roster(self._main, self._environment, self._redact)
        if allowed_models is None:
            allowed_models = [m for m in (self._models.default, *self._roster.models) if m is not None]
        self._environment.allowed_models = self._models.allowed(allowed_models)
        for secret in (*self._models.secrets, *self._sources.secrets, *getattr(store, "secrets", ())):
            self._redact.add(secret)

        self._spill = Spill()
        self._of_run = {
            "max_depth": max_sub_agent_depth,
            "max_sub_agents": max_sub_agents,
            "concurrency": (budget or Budget()).concurrency,
            "redact": self._redact,
            "spill": self._spill,
            "counts": self._counts,
            "prices": self._prices,
        }
        self._processes = ProcessGroups()
        self._store = store or MemoryStore()
        self._asker: Asker | None = None
        ends = (self._store.aclose, self._models.aclose, self._sources.aclose, self._settle)
        self._life = Life(start=self._start, ends=ends, release=self._release)

    # ---- asking

    async def ask(
        self,
        prompt: Prompt,
        *,
        conversation: str | None = None,
        output_type: Any = None,
        deps: Any = None,
        scratchpad: toolnexus.workflow.Scratchpad | None = None,
    ) -> RunResult:
        """Run the client's own loop on `prompt` and return what it gave.

        `prompt` is text, a list of text and media parts, or messages. With `conversation` the
        stored messages come first and the new ones are kept; without, nothing is. `deps` is handed
        to tools as `ctx.deps`, `scratchpad` as what they share (see `Scratchpad`). With `output_type`
        (a type that pydantic takes, or a JSON Schema) the answer is a value of it: `result.output`.

        A limit or an open question is a `status` of the result. Raises `ModelError` when the model
        fails (its `.result` holds the work so far), `OutputError` when the answer is not of its type
        after one repair either, `ConfigError`, `StoreError`, and `CancelledError` when the awaiting
        task is cancelled: everything below is stopped then, and the conversation keeps what was done.
        """
        given, values = as_messages(prompt), _handed_in(deps, scratchpad)
        return raise_error(await self._execute(self._main, given, conversation, output_type, values))

    async def run(
        self,
        target: Runnable | str,
        input: Any,
        *,
        conversation: str | None = None,
        output_type: Any = None,
        deps: Any = None,
        scratchpad: toolnexus.workflow.Scratchpad | None = None,
    ) -> RunResult:
        """Like `ask`, with another target: an agent (or its registered name), or any Runnable.

        `output_type` goes with an agent, and comes before its own.
        """
        chosen, values = self._target(target), _handed_in(deps, scratchpad)
        return raise_error(await self._execute(chosen, input, conversation, output_type, values))

    @overload
    def stream(
        self,
        input: Prompt,
        *,
        conversation: str | None = None,
        output_type: Any = None,
        deps: Any = None,
        scratchpad: toolnexus.workflow.Scratchpad | None = None,
    ) -> AbstractAsyncContextManager[Stream]: ...
    @overload
    def stream(
        self,
        input: Any,
        *,
        target: Runnable | str,
        conversation: str | None = None,
        output_type: Any = None,
        deps: Any = None,
        scratchpad: toolnexus.workflow.Scratchpad | None = None,
    ) -> AbstractAsyncContextManager[Stream]: ...
    @asynccontextmanager
    async def stream(
        self,
        input: Any,
        *,
        target: Runnable | str | None = None,
        conversation: str | None = None,
        output_type: Any = None,
        deps: Any = None,
        scratchpad: toolnexus.workflow.Scratchpad | None = None,
    ) -> AsyncGenerator[Stream]:
        """The same run, observed: `async with client.stream(…) as s: async for event in s: …`.

        After the last event `s.result` is the RunResult. A failure of the run is raised when the
        block ends. Leaving early cancels the run and raises nothing; `s.result` then holds what it
        had done.
        """
        from toolnexus.runtime.outbox import Outbox

        outbox = Outbox()
        chosen = self._main if target is None else self._target(target)
        check_id(conversation)
        given = as_messages(input) if target is None else input
        values = _handed_in(deps, scratchpad)
        running = self._execute(chosen, given, conversation, output_type, values, reader=outbox.put)
        async with observed(outbox, running) as stream:
            yield stream

    async def resume(
        self,
        waiting: str | RunResult | Mapping[str, Any],
        answers: Sequence[Answer | Mapping[str, Any]] = (),
        *,
        target: Runnable | str | None = None,
        deps: Any = None,
        scratchpad: toolnexus.workflow.Scratchpad | None = None,
    ) -> RunResult:
        """Go on with a run that is `pending`: here, or in any other process.

        `waiting` is the id of its conversation, its result, or the `snapshot` of its result. `answers`,
        as `Answer` or wire data, may be some of the open ones, in any order; what they are for runs,
        once, and nothing that was finished runs again. What stays open is in the result, or is asked of
        `on_request`. Without answers, the run that a crash left open in a conversation goes on.
        `target` is for a run of something that is neither the client's own loop nor registered.

        The same answer again does nothing, also when another process runs it: of several that resume at
        once one does. Raises `RunError` for an id that nobody asked, for another answer, and when nothing
        waits; `Suspended` for more answers while it is being resumed; and what `ask` raises.
        """
        return await self._resume(waiting, answers, target, _handed_in(deps, scratchpad))

    @asynccontextmanager
    async def stream_resume(
        self,
        waiting: str | RunResult | Mapping[str, Any],
        answers: Sequence[Answer | Mapping[str, Any]] = (),
        *,
        target: Runnable | str | None = None,
        deps: Any = None,
        scratchpad: toolnexus.workflow.Scratchpad | None = None,
    ) -> AsyncGenerator[Stream]:
        """`resume`, observed like `stream`: its failures are raised when the block ends."""
        from toolnexus.runtime.outbox import Outbox

        outbox, values = Outbox(), _handed_in(deps, scratchpad)
        async with observed(outbox, self._resume(waiting, answers, target, values, outbox.put)) as stream:
            yield stream

    async def translate(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send one chat completion request in the words of the model's endpoint; give the completion.

        `request` and what comes back are the JSON of OpenAI's chat completions, whatever style the
        endpoint has. One request, no loop: `tools` are declared and theirs to run who called. `model` may
        name one that the client knows; a request without a system prompt gets the client's. Hooks,
        budget, prices and metrics are those of any run. Raises `ConfigError` that names the place for
        what is no request or cannot be honoured, `LimitReached`, and what the model raises.
        """
        from toolnexus.engine.translate import Translation
        from toolnexus.models.chat.request import read_request

        chat = read_request(request)
        translation = Translation(self._environment, self._main)
        result = raise_error(await self._execute(translation, chat, None, None, {}))
        return result.raise_for_status().output

    def ask_sync(
        self,
        prompt: Prompt,
        *,
        conversation: str | None = None,
        output_type: Any = None,
        deps: Any = None,
    ) -> RunResult:
        """`ask` for code without an event loop (scripts, notebooks); runs on a thread of its own.

        Call `close()` at the end, or use `with Client(…) as client:`.
        """
        return self._life.sync(
            lambda: self.ask(prompt, conversation=conversation, output_type=output_type, deps=deps),
            "ask_sync",
            "client.ask(…)",
        )

    @property
    def store(self) -> Store:
        """Where conversations are kept."""
        return self._store

    def conversation(self, id: str) -> toolnexus.Conversation:
        """A handle: `messages`, `sub_agents`, `ask`, `pending`, `discard_pending`, `delete`."""
        from toolnexus.engine.conversations import Conversation

        check_id(id)
        return Conversation(id, self._conversations, self.ask)

    def steer(self, conversation: str, messages: Prompt) -> None:
        """Say something to the run in flight of a conversation; it reads it before its next turn.

        Raises `RunError` when no run is in flight.
        """
        self._conversations.steer(conversation, as_messages(messages))

    @property
    def services(self) -> toolnexus.graph.Services:
        """What this client has, for the nodes of a graph: `graph.load("assistant.yaml", client.services)`."""
        from pathlib import Path

        from toolnexus.graph.services import Services

        environment = self._environment
        return Services(
            models=self._models,
            toolkit=lambda: environment.toolkit,
            agents=lambda: environment.targets(self._main),
            workspace=Path(self._workdir),
        )

    @property
    def toolkit(self) -> Toolkit:
        """All tools of the client. Those of servers are there once it is open."""
        task = self._environment.task(self._main)
        more = [] if task is None else [task, *self._environment.beside_task(self._main)]
        tools = [*self._environment.toolkit, *more]
        return Toolkit(tools, context=self._context)


def _handed_in(deps: Any, scratchpad: object) -> Mapping[ContextKey[Any], Any]:
    """What a host gives to a run. Raises `ConfigError` for a scratchpad that is none."""
    if scratchpad is not None:
        from toolnexus.workflow.scratchpad import Scratchpad

        expect("scratchpad", scratchpad, Scratchpad, "give a Scratchpad()")
    return {DEPS: deps, SCRATCHPAD: scratchpad}
