"""RemoteAgent: an agent elsewhere, spoken to over A2A, as an agent of ours and as tools.

What it is: a definition, and what was read of its card. It holds no connection: each run has its own,
so that one object serves any number of runs, clients and event loops.
Above: a client's `agents` and `tools`. Below: `agents/remote_run.py`, and `protocols/a2a`, which loads
the A2A library at first use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from toolnexus.core.files import read_text, reason
from toolnexus.core.names import model_names, sanitize
from toolnexus.core.options import expect, install, seconds, wrong
from toolnexus.core.strict_json import decode
from toolnexus.core.suspension import Request
from toolnexus.core.tools import Tool, ToolResult
from toolnexus.core.usage import Budget
from toolnexus.engine.delegate import delegated
from toolnexus.errors import ConfigError, SourceError
from toolnexus.models.http import check_headers
from toolnexus.runtime.context import Outcome, RunContext, RunSettings, ToolContext
from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.threads import run_in_thread
from toolnexus.tools.filters import FilterSpec, NameFilter
from toolnexus.tools.mcp_values import Values

if TYPE_CHECKING:
    from toolnexus.protocols.a2a.card import Found, Skill

CARD_SECONDS = 10.0
"""The longest that a client waits for a card when it opens."""
WITHDRAW_SECONDS = 5.0
"""The longest that giving up a question waits for the agent that asked it."""
_MOST_CARD = 1 << 20
_MOST_SKILLS = 100
_MOST_TEXT = 1000
"""Characters of a description that somebody else wrote."""
_PROTOCOLS = ("card", "http", "exchange")

_TASK = {
    "type": "object",
    "properties": {
        "task": {
            "type": "string",
            "description": "What to do, with everything that is needed for it: the agent sees nothing else.",
        }
    },
    "required": ["task"],
    "additionalProperties": False,
}


class RemoteAgent:
    """An agent behind A2A (protocol 1.0 or 0.3, JSON-RPC or REST), whatever it is made with.

    In `Client(agents=[remote])` it is a target of `task` like any other agent, and of `client.run`; in
    `tools=[remote]` each skill of its card is a tool. Needs the extra `a2a` of toolnexus. Raises
    `ConfigError` for whatever can be known to be wrong at this point.

    * `name`: what `task` and errors call it, 1 to 64 characters.
    * `url`: the address of the agent; its card is found there, at a well-known path.
    * `card`: instead of `url`: the address of the card, the path of a JSON file, or what it holds.
    * `description`: what it is good at. None: what its card says.
    * `headers`: sent with every request, such as `{"Authorization": "Bearer ${TOKEN}"}`; variables of the
      environment are filled in. They go to the origin of `url` or of the card's address and nowhere
      else, whatever the card says. With a card of your own they go where that points.
    * `skills`: which skills are tools: ids and globs, or `{id: bool}`. None: all.
    * `timeout`: how many seconds it may be silent. A task that takes longer is asked how far it is.
    * `budget`: ceilings for each of its runs, such as `Budget(seconds=60)`.

    A limit, a cancel and a declined question cancel its task, too.
    """

    def __init__(
        self,
        name: str,
        *,
        url: str | None = None,
        card: str | Path | Mapping[str, Any] | None = None,
        description: str | None = None,
        headers: Mapping[str, str] | None = None,
        skills: FilterSpec = None,
        timeout: float = 60.0,
        budget: Budget | None = None,
    ) -> None:
        where = f"remote agent {name!r}"
        if not isinstance(name, str) or not name.strip() or len(name) > 64:
            raise ConfigError(f"{where}: a name is 1 to 64 characters of text")
        if (url is None) == (card is None):
            given = "neither url nor card" if url is None else "url and card"
            raise ConfigError(f"{where} has {given}: give the address of the agent, or its card")
        if description is not None:
            expect(f"{where}: description", description, str, "give text")
        seconds(f"{where}: timeout", timeout)
        if timeout == 0:
            raise ConfigError(f"{where}: timeout={timeout!r} must be more than 0")
        if budget is not None:
            expect(f"{where}: budget", budget, Budget, "give a Budget")
        if find_spec("a2a") is None:
            raise ConfigError(f"{where}: the A2A library is missing: {install('a2a')}")
        reader = Values(None, ()).reader(where)
        if headers is not None:
            check_headers(headers)
        self.name = name
        self.timeout = timeout
        self.settings = RunSettings(budget=budget)
        self.headers = reader.fill_table(headers or {}, "headers")
        check_headers(self.headers)
        self.is_card = card is not None
        self.card: Any = None
        """What the card holds, when the user has it."""
        self.url: str | None = None
        """Where the card is, or the agent."""
        if isinstance(card, Mapping):
            self.card = deepcopy(dict(card))
        elif isinstance(card, Path) or (isinstance(card, str) and "://" not in card):
            self.card = _read(card, where)
        else:
            self.url = _address(reader.fill_url(_text(url or card, where)), where)
        self.secrets: tuple[str, ...] = tuple(reader.secrets)
        """What must never be shown: values of headers, passwords."""
        self.secret_names: tuple[str, ...] = tuple(reader.names)
        """The environment variables that secrets came from."""
        self.redact = Redactor(self.secrets)
        self._description = description
        self._skills = NameFilter.of(skills, f"{where}: skills")
        self._found: Found | None = None
        self._tools: tuple[Tool, ...] = ()

    def __repr__(self) -> str:
        return f"RemoteAgent({self.name!r})"

    @property
    def description(self) -> str:
        """What it is good at; of a card that was not read yet, nothing."""
        if self._description is not None:
            return self._description
        return "" if self._found is None else _bounded(self.redact(self._found.description))

    @property
    def tools(self) -> Sequence[Tool]:
        """A tool for each skill that passes, while a client is open that has it."""
        return self._tools

    async def execute(self, input: Any, ctx: RunContext) -> Outcome:
        """Send `input` and follow the task until it is done, or asks.

        Raises `SourceError` when the agent is out of reach or answers nonsense, and `RunError` when its
        task failed; the frame around it turns them into a result.
        """
        return await self.run_skill(None, input, ctx)

    async def run_skill(self, skill: str | None, input: Any, ctx: RunContext) -> Outcome:
        """`execute`, for one skill of the agent: its id goes with the message."""
        found = await self.found()
        from toolnexus.agents.remote_run import RemoteRun

        return await RemoteRun(self, found, ctx, skill).execute(input)

    async def open(self, on_change: Callable[[], None]) -> None:
        """Read the card, within ten seconds.

        Raises `SourceError` when it cannot, and `ConfigError` when the filter names an unknown skill.
        """
        self._found = None
        found = await self.found()
        skills = found.skills[:_MOST_SKILLS]
        self._skills.check([skill.id for skill in skills], f"remote agent {self.name!r}: skills")
        admitted = [skill for skill in skills if self._skills.admits(skill.id)]
        self._tools = tuple(self._as_tools(found, admitted))

    async def withdraw(self, request: Request) -> None:
        """Cancel the task that asked, if it is ours. Takes some seconds at most, and raises nothing."""
        asked = request.data or {}
        if asked.get("agent") == self.name and isinstance(task_id := asked.get("taskId"), str):
            with suppress(Exception):  # an agent that is gone has nothing to stop
                async with asyncio.timeout(WITHDRAW_SECONDS):
                    found = await self.found()
                    from toolnexus.agents.remote_run import cancel

                    await cancel(self, found, task_id)

    async def aclose(self) -> None:
        """Nothing is open: a run ends its own connection."""
        self._tools = ()

    async def found(self) -> Found:
        """The card, read once. Raises `SourceError`."""
        if self._found is None:
            self._found = await self._fetch()
        return self._found

    async def _fetch(self) -> Found:
        await run_in_thread(_load_protocols)  # takes half a second, once
        from toolnexus.protocols.a2a import card, http

        patience = min(CARD_SECONDS, self.timeout)
        try:
            if self.url is None:
                return card.read(self.card, None)
            async with asyncio.timeout(patience), http.Wire(self.headers, patience) as wire:
                return await card.fetch(wire, self.url, is_card=self.is_card)
        except Exception as error:
            late = isinstance(error, TimeoutError)
            fault = "its card does not come" if late else http.explained(error, patience, self.redact)
            raise self.error(fault) from None  # what the other side wrote may hold a secret

    def error(self, why: object) -> SourceError:
        """What is wrong with the agent, as an error."""
        return SourceError(self.redact(f"remote agent {self.name!r}: {why}"), source=self.name)

    def _as_tools(self, found: Found, skills: Sequence[Skill]) -> list[Tool]:
        card = sanitize(found.name) or self.name
        names = model_names([(f"{card}_{sanitize(skill.id)}", skill.id) for skill in skills])
        return [SkillTool(name, skill, self) for name, skill in zip(names, skills, strict=True)]


class SkillTool(Tool):
    """A skill of a remote agent: a call is a run of its own below the one that calls."""

    def __init__(self, name: str, skill: Skill, remote: RemoteAgent) -> None:
        about = remote.redact(": ".join(text for text in (skill.name, skill.description) if text))

        async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
            target = _SkillRun(ctx.tool.name, remote, skill.id)
            return await delegated(target, arguments["task"], ctx)

        super().__init__(
            name, _bounded(about), _TASK, execute, source="a2a", origin=remote.name, original_name=skill.id
        )


class _SkillRun:
    """What a call of such a tool runs."""

    def __init__(self, name: str, remote: RemoteAgent, skill: str) -> None:
        self.name = name
        self.description = remote.description
        self.settings = remote.settings
        self._remote = remote
        self._skill = skill

    async def execute(self, input: Any, ctx: RunContext) -> Outcome:
        return await self._remote.run_skill(self._skill, input, ctx)


def _load_protocols() -> None:
    for name in _PROTOCOLS:
        import_module(f"toolnexus.protocols.a2a.{name}")


def _read(path: str | Path, where: str) -> Any:
    try:
        return decode(read_text(Path(path), _MOST_CARD))
    except OSError as error:
        raise ConfigError(f"{where}: the card {str(path)!r} cannot be read: {reason(error)}") from error
    except ValueError as error:
        raise ConfigError(f"{where}: the card {str(path)!r} is no JSON: {error}") from error


def _text(place: object, where: str) -> str:
    if not isinstance(place, str):
        raise wrong(f"{where}: address", place, "give a text such as 'https://agents.example.com'")
    return place


def _address(url: str, where: str) -> str:
    """`url`, if it is one. Raises `ConfigError`, which shows no password."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = parts = None
    if not parts or not host or parts.scheme not in ("http", "https"):
        raise ConfigError(f"{where}: an address looks like 'https://host/path' or 'http://host:port'")
    if parts.username or parts.password:
        raise ConfigError(f"{where}: an address must not hold a user or password; put them into headers=…")
    return url


def _bounded(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
