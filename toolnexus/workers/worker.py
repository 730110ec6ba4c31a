"""Worker: an agent that lives long, and reads what is posted to it.

Above: hosts, over a bus. Below: the client; every turn is one run on the worker's conversation.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, Self

from toolnexus.client import Client
from toolnexus.core.messages import Message
from toolnexus.core.options import count, expect, expect_callable
from toolnexus.core.result import RunResult
from toolnexus.core.suspension import Answer
from toolnexus.core.tools import Tool
from toolnexus.engine.agent import Agent
from toolnexus.engine.options import check_store
from toolnexus.engine.stored import has_ended
from toolnexus.errors import ConfigError, RunError, StoreError, Suspended, ToolError
from toolnexus.runtime.context import ToolContext
from toolnexus.runtime.hooks import settled
from toolnexus.stores.base import Store
from toolnexus.tools.function import tool
from toolnexus.workers.bus import Bus
from toolnexus.workers.inbox import Lost, Queue
from toolnexus.workers.lent import LentStore
from toolnexus.workers.post import Post, read_back, turn_of
from toolnexus.workflow.coordinator import WithTools

logger = logging.getLogger("toolnexus.workers")

_INTERRUPTED = "Your last turn was interrupted before its end. Finish what its messages ask for."


class Worker:
    """One agent with an inbox on a bus: `async with Worker(agent, store=store, bus=bus): …`.

    What is posted while it is busy is read together, in one turn. Every turn is one run of `agent` on the
    conversation `worker.conversation`. Its model has a tool `post` for the other workers of the bus.

    The inbox is in the store: a worker that stopped in the middle, or whose process died, goes on when it is
    started again, loses no message and begins none twice. Several processes may run it: each turn is that of
    one of them, which claims the inbox for it.

    * `store`: where inbox and conversation are kept, and stay open; the rest is a client's own default.
    * `client`: instead of `store`, a client with its tools, models, budgets and store.
    * `max_inbox`: the messages that may wait; whoever posts one more is refused at once.
    * `lease`: after how many seconds without a sign of life another process takes up a turn.
    * `on_result`: gets the RunResult of every turn, failed and pending ones too; plain or async. A turn that
      failed is not tried again: its messages are in the conversation.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        bus: Bus,
        store: Store | None = None,
        client: Client | None = None,
        max_inbox: int = 100,
        lease: float = 10.0,
        on_result: Callable[[RunResult], object] | None = None,
    ) -> None:
        """Raises `ConfigError`, and `NameConflict` when the bus has a worker of this name."""
        expect("Worker: agent", agent, Agent, "give an Agent")
        expect("Worker: bus", bus, Bus, "give a Bus")
        if store is not None and client is not None:
            raise ConfigError("Worker: give a store or a client, which has a store")
        if client is not None:
            expect("Worker: client", client, Client, "give a Client")
        check_store(store)
        expect_callable("Worker: on_result", on_result, "give a function of a RunResult")
        count("Worker: max_inbox", max_inbox, 1)
        if isinstance(lease, bool) or not isinstance(lease, (int, float)) or not 0 < lease < math.inf:
            raise ConfigError(f"Worker: lease={lease!r} must be a number of seconds above 0")
        self.name = agent.name
        self.conversation = f"worker:{agent.name}"
        self.still = asyncio.Event()
        """Set while nothing is under way and nothing queued that could be."""
        self.still.set()
        self._bus = bus
        self._agent = agent
        self._client = client or Client(store=None if store is None else LentStore(store))
        self._closes = client is None
        self._queue = Queue(self._client.store, self.name, self.conversation, max_inbox, lease)
        self._on_result = on_result
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._one = asyncio.Lock()
        self._stopping = self._waiting = False
        self._turn: tuple[str, int] = ("", 0)
        """The last post of the turn in flight, and the fewest hops of all: none is cut short by others."""
        self._equipped: WithTools | None = None
        bus.join(self)

    async def start(self) -> None:
        """Take up what the store has, and go on reading. Idempotent. Raises `StoreError`."""
        if self._task is not None and not self._task.done():
            return
        await self._queue.load()
        if self.name not in self._bus.names:  # it was closed
            self._bus.join(self)
        self._equipped = WithTools(self._agent, [self._post_tool()])
        self._stopping = self._waiting = False
        self.still.clear()
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Let the turn in flight end, then read nothing more; what waits stays in the store.

        Cancelling this ends the turn, too; the next start takes it up. Raises what the worker failed with.
        """
        self._stopping = True
        self._wake.set()
        task, self._task = self._task, None
        if task is not None:
            await task

    async def aclose(self) -> None:
        """`stop`, and leave the bus. Idempotent."""
        try:
            await self.stop()
        finally:
            self._bus.leave(self)
            if self._closes:
                await self._client.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def resume(self, answers: Sequence[Answer | Mapping[str, Any]]) -> RunResult:
        """Answer what the last turn asked (its result had `pending`), and read on. See `Client.resume`.

        Waits for a turn that another process has. Raises `RunError`, too, when that takes this one over.
        """
        async with self._one:
            await self._queue.wait_and_claim()
            async with self._queue.held():
                try:
                    result = await self._client.resume(self.conversation, answers, target=self._as_of_now())
                except StoreError:
                    raise
                except Exception as error:  # the turn is over, or never began: nothing was left in the middle
                    result = error
        if isinstance(result, Exception):
            raise result
        self._waiting = result.status == "pending"
        self._nudge()
        return result

    async def accept(self, post: Post) -> None:
        """Keep `post`. Raises `RunError` at once when the inbox is full, and `StoreError`."""
        await self._queue.put(post)
        self._waiting = False
        self._nudge()

    def _nudge(self) -> None:
        if self._task is not None and not self._task.done() and not self._stopping:
            self.still.clear()
            self._wake.set()

    def _as_of_now(self) -> Agent:
        return self._agent if self._equipped is None else self._equipped()

    async def _work(self) -> None:
        try:
            while not self._stopping:
                self._wake.clear()
                if not self._queue.was_left and (self._waiting or not self._queue.posts):
                    self.still.set()
                    await self._wake.wait()
                elif not await self._turn_if_free():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), self._queue.pause)
        except Exception as error:
            logger.error("worker %r stopped, its messages stay in the store: %s", self.name, error)
            raise
        finally:
            self.still.set()

    async def _turn_if_free(self) -> bool:
        """One turn over all that is to do, or False: another process is at one."""
        result: RunResult | None = None
        async with self._one:
            if not await self._queue.claim():
                return False
            try:
                async with self._queue.held():
                    if self._queue.was_left:
                        result = await self._take_up()
                        self._queue.was_left = False
                    elif self._queue.posts:
                        result = await self._read()
            except Lost as lost:
                logger.warning("a turn of worker %r was cut short: %s", self.name, lost)
        if result is not None and self._on_result is not None:
            try:
                await settled(self._on_result(result))
            except Exception:
                logger.exception("on_result of worker %r failed", self.name)
        return True

    async def _take_up(self) -> RunResult | None:
        """Bring the turn to an end that was in flight when this worker, or its process, ended."""
        messages, _ = await self._client.store.load(self.conversation)
        state = await self._client.store.load_state(self.conversation)
        there = read_back(messages)
        begun = {id for id, _ in there} & {post.id for post in self._queue.posts}
        self._begin([post for post in there if post[0] in begun] or there[-1:] or [("", 0)])
        if state is not None and not has_ended(state):
            return await self._run(self._client.resume(self.conversation, target=self._as_of_now()), begun)
        if begun and _is_open(messages):
            return await self._run(self._ask(turn_of((), _INTERRUPTED)), begun)
        if begun:
            await self._queue.drop(begun)
        return None

    async def _read(self) -> RunResult | None:
        """All that waits, in one turn."""
        posts = tuple(self._queue.posts)
        self._begin([(post.id, post.hops) for post in posts])
        return await self._run(self._ask(turn_of(posts)), {post.id for post in posts})

    def _begin(self, posts: Sequence[tuple[str, int]]) -> None:
        self._turn = (posts[-1][0], min(hops for _, hops in posts))

    def _ask(self, text: str) -> Awaitable[RunResult]:
        return self._client.run(self._as_of_now(), text, conversation=self.conversation)

    async def _run(self, turn: Awaitable[RunResult], ids: set[str]) -> RunResult | None:
        """What a turn over the posts `ids` gave, which are done after it; None: the conversation waits.

        Raises what left them undone.
        """
        try:
            result = await turn
        except StoreError:
            raise
        except Suspended:
            self._waiting = True
            return None
        except Exception as error:
            result = getattr(error, "result", None)
            if not isinstance(result, RunResult) or result.limit == "cancelled":
                raise
            logger.warning("a turn of worker %r failed: %s", self.name, error)
        self._waiting = result.status == "pending"
        await self._queue.drop(ids)
        return result

    def _post_tool(self) -> Tool:
        others = [name for name in self._bus.names if name != self.name]
        about = f"Send a message to another worker, to be read later; no answer comes back. Workers: {others}"

        async def post(to: str, text: str, ctx: ToolContext) -> str:
            last, hops = self._turn
            call = "\n".join([self.name, last, str(ctx.context.frame.turns), ctx.call_id, to, text])
            id = sha256(call.encode()).hexdigest()[:16]  # the same when a call is made again after a crash
            mine = Post(id=id, sender=self.name, text=text, trusted=True, hops=hops + 1)
            try:
                await self._bus.send(to, mine)
            except RunError as refused:
                raise ToolError(str(refused)) from refused
            return "sent"

        return tool(name="post", description=about, idempotent=True)(post)


def _is_open(messages: Sequence[Message]) -> bool:
    return bool(messages) and (messages[-1].role != "assistant" or bool(messages[-1].tool_calls))
