"""What a client does when it is asked: one run with all that it needs, from its start or where it stood.

Above: the client, which is a door. Below: the runner.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from toolnexus.core.options import expect
from toolnexus.core.result import RunResult
from toolnexus.engine.agent import Agent
from toolnexus.engine.conversation_id import CONVERSATION, CONVERSATIONS, check_id
from toolnexus.engine.environment import ENVIRONMENT, Environment
from toolnexus.engine.life import Life
from toolnexus.engine.models import Models
from toolnexus.engine.output import OUTPUT, OutputType, output_type_of
from toolnexus.engine.roster import Roster
from toolnexus.engine.stream import raise_error
from toolnexus.errors import ConfigError, RunError
from toolnexus.protocols.http import HTTP_POOL
from toolnexus.runtime.context import ContextKey, RunContext, Runnable, RunSettings
from toolnexus.runtime.questions import Asker, OnRequest
from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.spill import Spill
from toolnexus.stores.base import Store
from toolnexus.tools.builtin.catalog import BOUND_ELSEWHERE
from toolnexus.tools.builtin.host import CLOSED_ROOTS, READ_ROOTS, SECRET_ENV
from toolnexus.tools.builtin.options import OPTIONS, BuiltinOptions
from toolnexus.tools.builtin.survivors import PROCESSES, ProcessGroups
from toolnexus.tools.gather import Sources

if TYPE_CHECKING:
    from toolnexus.core.events import Event
    from toolnexus.core.messages import Message
    from toolnexus.core.suspension import Answer
    from toolnexus.engine.conversations import Body, Conversations
    from toolnexus.engine.runner import Journal, LocalRunner
    from toolnexus.models.prices import Prices
    from toolnexus.runtime.emitter import Emitter
    from toolnexus.runtime.run import Run
    from toolnexus.runtime.snapshot import Snapshot
    from toolnexus.runtime.tracing import Tracing

MAIN = "main"


class Asked:
    """The part of a client that runs what it is asked."""

    _main: Agent
    _settings: RunSettings
    _environment: Environment
    _sources: Sources
    _models: Models
    _builtins: BuiltinOptions
    _roster: Roster
    _redact: Redactor
    _prices: Prices | None
    _of_run: Mapping[str, Any]
    """What is the same for every run."""
    _spill: Spill
    _processes: ProcessGroups
    _store: Store
    _on_request: OnRequest | None
    _asker: Asker | None
    _life: Life

    @cached_property
    def _runner(self) -> LocalRunner:
        from toolnexus.engine.runner import LocalRunner

        return LocalRunner()

    @cached_property
    def _conversations(self) -> Conversations:
        from toolnexus.engine.conversations import Conversations

        return Conversations(self._store, self._redact, self._sources.withdraw)

    @cached_property
    def _for_runs(self) -> tuple[type[Run], Callable[[str | None, Redactor], Tracing | None]]:
        """What every ask needs, and a client that is never asked does not load."""
        from toolnexus.runtime.run import Run
        from toolnexus.telemetry.choose import followers

        return Run, followers

    async def _settle(self) -> None:
        await self._conversations.settle()

    def _target(self, target: Runnable | str) -> Runnable:
        expect("target", target, (str, Runnable), "give an Agent, its registered name, or another Runnable")
        return self._roster.target(target)

    def _resumed(self, target: Runnable | str | None, stood: Snapshot | None) -> Runnable:
        """What a run goes on as. Raises `ConfigError` when nobody of that name is known."""
        if target is not None:
            return self._target(target)
        return self._main if stood is None or stood.agent == MAIN else self._roster.target(stood.agent)

    async def _execute(
        self,
        target: Runnable,
        input: Any,
        conversation: str | None,
        output_type: Any,
        values: Mapping[ContextKey[Any], Any],
        reader: Callable[[Event], None] | None = None,
    ) -> RunResult:
        check_id(conversation)
        wanted = output_type_of(output_type)
        if wanted is not None and not isinstance(target, Agent):
            raise ConfigError(f"output_type goes with an Agent; {target.name!r} gives what it gives")
        await self._life.open()
        body = self._body(lambda _: target, input, values, conversation, reader, wanted)
        async with self._life.asks.one():
            if conversation is None:
                return await body((), [])
            return await self._conversations.ask(conversation, body)

    def _body(
        self,
        target: Callable[[Snapshot | None], Runnable],
        input: Any,
        values: Mapping[ContextKey[Any], Any],
        conversation: str | None,
        reader: Callable[[Event], None] | None = None,
        wanted: OutputType | None = None,
    ) -> Body:
        """What runs `target` on a history, or from where it stood."""

        async def body(
            history: Sequence[Message],
            inbox: list[Message],
            journal: Journal | None = None,
            resumed: Snapshot | None = None,
        ) -> RunResult:
            run, host = self._run(conversation, reader), {**self._host(), **values}
            if wanted is not None:
                host[OUTPUT] = wanted
            if conversation is not None:
                host[CONVERSATION] = conversation
            chosen = target(resumed)
            if resumed is not None:
                self._check_target(chosen, resumed)
                run.answers = resumed.answers
            return await self._runner.start(
                run,
                chosen,
                input,
                settings=self._settings,
                host=host,
                history=history,
                asker=self._asker,
                inbox=inbox,
                resumed=resumed,
                journal=journal,
            )

        return body

    def _check_target(self, target: Runnable, stood: Snapshot) -> None:
        """Raises `RunError` for a target that cannot go on, before anything of it runs.

        It has another name than the one that asked (an agent may have a new one), is an agent where something
        else asked or the other way round, or is without the tool of a call that waits.
        """
        is_agent, of_agent = isinstance(target, Agent), stood.frame.of_agent
        if of_agent not in (None, is_agent) or not (is_agent or target.name == stood.agent):
            asked = f"{'agent ' if of_agent else ''}{stood.agent!r} asked"
            other = f"{type(target).__name__} {target.name!r} was to go on"
            raise RunError(f"{asked}, and {other}; go on with the target that asked")
        if not (isinstance(target, Agent) and stood.frame.messages):
            return
        tools = [*self._environment.toolkit, *self._environment.own(target.scope)]
        there = {*BOUND_ELSEWHERE, *(tool.name for tool in tools)}
        calls = stood.frame.messages[-1].tool_calls
        waiting = {call.name for call in calls if call.id in stood.frame.waiting}
        if lacking := sorted(waiting - there):
            raise RunError(
                f"the run waits for calls of {lacking}, which are not among the tools now; go on with the "
                "tools that it began with, or give it up with discard_pending()"
            )

    def _run(self, conversation: str | None, reader: Callable[[Event], None] | None = None) -> Run:
        emit: Emitter | None = None
        if reader is not None:
            from toolnexus.runtime.emitter import Emitter

            emit = Emitter(reader)
        new_run, followers = self._for_runs
        tracing = followers(conversation, self._redact)
        return new_run(runner=self._runner, emit=emit, tracing=tracing, **self._of_run)

    def _host(self) -> dict[ContextKey[Any], Any]:
        skills = self._sources.skills
        return {
            ENVIRONMENT: self._environment,
            CONVERSATIONS: self._conversations,
            READ_ROOTS: skills.roots if skills is not None else (),
            CLOSED_ROOTS: skills.closed if skills is not None else (),
            PROCESSES: self._processes,
            SECRET_ENV: lambda: self._sources.secret_names,
            OPTIONS: self._builtins,
            HTTP_POOL: self._models.pool,
        }

    @asynccontextmanager
    async def _context(
        self,
        reader: Callable[[Event], None] | None = None,
        asker: Asker | None = None,
        again: RunContext | None = None,
    ) -> AsyncGenerator[RunContext]:
        """Where a tool runs that the host calls itself: open, limited, and ended with the client.

        `asker` answers its questions where the client has nobody who does. `again`: the one of a call
        that goes on with its answers.
        """
        await self._life.open()
        async with self._life.asks.one():
            if again is not None:
                again.run.emit = Emitter(reader) if reader is not None else None
            yield again or self._runner.root(
                self._run(None, reader),
                self._main,
                settings=self._settings,
                host=self._host(),
                asker=self._asker or asker,
            )

    async def _start(self, again: bool) -> None:
        """Open the sources. `again`: the loop they were opened on is gone."""
        self._asker = Asker(self._on_request) if self._on_request is not None else None
        if self._prices is not None:
            await asyncio.to_thread(self._prices.load)
        if again:
            await self._sources.aclose()
        try:
            await self._sources.open(self._environment.refresh)
            self._environment.refresh()
            self._roster.opened(self._settings.permissions)
        except BaseException:
            await self._sources.aclose()
            raise

    def _release(self) -> None:
        self._processes.close()
        self._spill.close()

    async def _resume(
        self,
        waiting: str | RunResult | Mapping[str, Any],
        answers: Sequence[Answer | Mapping[str, Any]],
        target: Runnable | str | None,
        values: Mapping[ContextKey[Any], Any],
        reader: Callable[[Event], None] | None = None,
    ) -> RunResult:
        from toolnexus.runtime.snapshot import Snapshot, as_answers, taken

        given = as_answers(answers)
        if isinstance(waiting, RunResult):
            if waiting.snapshot is None:
                raise RunError(f"this run waits for nothing: it is {waiting.status!r}")
            waiting = waiting.snapshot
        conversation = waiting if isinstance(waiting, str) else waiting.get("conversation")
        check_id(conversation)
        await self._life.open()
        body = self._body(lambda stood: self._resumed(target, stood), None, values, conversation, reader)
        asks = self._on_request is not None
        async with self._life.asks.one():
            if conversation is not None:
                return raise_error(await self._conversations.resume(conversation, given, body, asks=asks))
            assert not isinstance(waiting, str)
            snapshot = Snapshot.from_json(waiting)
            if not ((new := taken(snapshot, given)) or asks):
                from toolnexus.engine.stored import standing

                return standing(snapshot, snapshot.frame.messages)
            whole = replace(snapshot, answers={**snapshot.answers, **new})
            return raise_error(await body((), [], None, whole))
