"""The client behind `run` and `chat`."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence

from toolnexus.cli.detect import Found, choose
from toolnexus.cli.exits import UsageError
from toolnexus.client import Client
from toolnexus.engine.agent import Agent
from toolnexus.runtime.questions import OnRequest
from toolnexus.stores.base import Store

SAFE_BUILTINS = ("read", "grep", "glob", "question")
"""What a command may use unless told otherwise: nothing that changes a file or runs a program."""

_LOOK = ("read", "grep", "glob")

SYSTEM = (
    "You work for somebody at a terminal. Answer in plain text, briefly. When pieces of the work do not need "
    "each other, give them to agents with `task`, all in one turn; then check what they say, and answer."
)
_EXPLORE = (
    "You find things out. Search and read what you need, then answer with facts: paths, line numbers, short "
    "quotes. Change nothing. Say what you could not find."
)
_REVIEW = (
    "You check critically. Read all that matters for the question, look for what is wrong, missing or risky, "
    "and answer with a list: place, problem, remedy. Change nothing. Say what you did not look at."
)


def find_model(options: Namespace) -> Found:
    """The model that the options or the surroundings name. Raises `UsageError`."""
    key: str | None = None
    if options.api_key_env is not None:
        key = os.environ.get(options.api_key_env, "").strip()
        if not key:
            raise UsageError(f"--api-key-env: the environment has no {options.api_key_env!r}")
    return choose(options.model, options.base_url, key)


def make_client(options: Namespace, found: Found, on_request: OnRequest | None) -> Client:
    """A client with the tools that the options name and two agents to delegate to.

    Raises `ConfigError` for options that are wrong.
    """
    builtins = _builtins(options)
    return Client(
        model=found.spec,
        base_url=found.base_url,
        api_key=found.api_key,
        system_prompt=SYSTEM if options.system is None else options.system,
        mcp=options.mcp,
        skills=options.skills or None,
        builtins=builtins,
        agents=_agents(builtins, more=bool(options.mcp or options.skills)),
        max_turns=options.max_turns,
        on_request=on_request,
        store=_store(options),
        workdir=options.workdir,
    )


def _builtins(options: Namespace) -> bool | Sequence[str]:
    if options.no_builtins:
        return False
    if options.builtins is None:
        return SAFE_BUILTINS
    names = [name.strip() for name in options.builtins.split(",") if name.strip()]
    return True if names == ["all"] else names


def _agents(builtins: bool | Sequence[str], *, more: bool) -> list[Agent]:
    """Two agents that look and change nothing of their own; servers and skills are theirs, too."""
    if isinstance(builtins, bool):
        look = list(_LOOK) if builtins else []
    else:
        look = [name for name in _LOOK if name in builtins]
    if not look and not more:
        return []
    tools = {"builtins": look}
    return [
        Agent(
            name="explore",
            description="Finds things out by searching and reading; answers with facts and places.",
            system_prompt=_EXPLORE,
            tools=tools,
            agents=[],
        ),
        Agent(
            name="review",
            description="Checks something critically; answers with problems and remedies.",
            system_prompt=_REVIEW,
            tools=tools,
            agents=[],
        ),
    ]


def _store(options: Namespace) -> Store | None:
    if options.store is None:
        return None
    from toolnexus.stores.sqlite import SqliteStore

    return SqliteStore(options.store)
