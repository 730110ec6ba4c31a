"""An agent of a deployment: its engine, within its policy, between the hooks of the host."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolnexus.core.messages import user
from toolnexus.core.usage import Budget
from toolnexus.graph.board import MAIN_CHANNEL, Board
from toolnexus.graph.checkpoint import Checkpoint
from toolnexus.graph.client_run import attempt, begun, counted
from toolnexus.graph.graph import Graph
from toolnexus.runtime.context import Outcome, RunContext, Runnable, RunSettings

Hook = Callable[[Board], Any]
"""Plain or async. `prepare` and `commit` give nothing, a referee gives None, or what is to be better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What the host does around the attempts of an agent."""

    prepare: Sequence[Hook] = ()
    """Before the first attempt: they fill the board."""
    referees: Sequence[Hook] = ()
    """After an attempt that came to its end: a text asks for another one."""
    commit: Sequence[Hook] = ()
    """After the last one, when nobody asked for more."""

    def __bool__(self) -> bool:
        return bool(self.prepare or self.referees or self.commit)


class DeployedAgent:
    """An agent of a deployment, a Runnable: `client.run(deployment.agents["assistant"], …)`.

    The first run opens the deployment. Attempts, referees and commits share one deadline; each attempt has
    the budgets of its graph to itself.
    """

    def __init__(
        self,
        *,
        name: str,
        title: str,
        description: str,
        engine: Runnable,
        hooks: Hooks,
        max_revise: int,
        settings: RunSettings,
        opened: Callable[[RunContext], Awaitable[None]],
    ) -> None:
        self.name = name
        self.title = title
        """What its card calls it."""
        self.description = description
        self.engine = engine
        """What answers: a `Graph`, or what an impl of the host made."""
        self.settings = settings
        self._hooks = hooks
        self._max_revise = max_revise
        self._opened = opened

    async def execute(self, input: Any, ctx: RunContext) -> Outcome:
        """See `Runnable`. A revision that nobody may ask for any more is `incomplete`: limit `max_revise`."""
        await self._opened(ctx)
        if not isinstance(self.engine, Graph):
            return await self.engine.execute(input, ctx)
        frame, number = ctx.frame, 1
        stood = frame.resumed
        if stood is not None and stood.state is not None:
            number = int(stood.state["attempt"])
            frame.resumed = replace(stood, state=stood.state["graph"])
        elif not isinstance(input, Checkpoint):  # behind one, everything is prepared
            input = begun(input, frame)
            await _each(self._hooks.prepare, input)
        while True:
            outcome, board = await attempt(self.engine, input, ctx, number)
            if outcome.status == "pending":
                return replace(outcome, state={"attempt": number, "graph": outcome.state})
            if outcome.status != "done":
                return counted(outcome, frame)
            asked = [str(text) for text in await _each(self._hooks.referees, board) if text]
            if not asked:
                await _each(self._hooks.commit, board)
                return counted(outcome, frame)
            if number > self._max_revise:
                limit = frame.hit(ctx.run, "max_revise", self._max_revise)
                return counted(replace(outcome, status="incomplete", limit=limit), frame)
            board.append(MAIN_CHANNEL, user("\n\n".join(asked)))
            input, number = board, number + 1

    def __repr__(self) -> str:
        return f"DeployedAgent({self.name!r})"


def settings_of(run_timeout: float, workdir: Any) -> RunSettings:
    """The settings of the runs of an agent."""
    budget = Budget(seconds=run_timeout) if run_timeout else None
    return RunSettings(budget=budget, workdir=workdir)


async def _each(hooks: Sequence[Hook], board: Board) -> list[Any]:
    out: list[Any] = []
    for hook in hooks:
        given = hook(board)
        out.append(await given if inspect.isawaitable(given) else given)
    return out
