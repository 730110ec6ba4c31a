"""The client behind the commands: a config document, or the options alone."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolnexus.cli.detect import Found, choose
from toolnexus.cli.exits import UsageError
from toolnexus.cli.view.words import printable
from toolnexus.client import Client
from toolnexus.engine.agent import Agent
from toolnexus.runtime.questions import OnRequest

Change = Callable[[dict[str, Any]], dict[str, Any]]

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


def make_client(
    options: Namespace, on_request: OnRequest | None, recorded: Change | None = None
) -> tuple[Client, str]:
    """A client for `run` and `chat`, and which model it talks to and why.

    With `--config` the document says what there is, and each other option takes the place of what it
    says; without, there are `SAFE_BUILTINS` and two agents. `recorded` gets the options of the client,
    the model among them, and gives those to use. Raises `ConfigError`, and `UsageError` when there is no
    model.
    """
    given = source_options(options)
    given |= _model_options(options)
    given["on_request"] = on_request
    if options.config is not None:
        return _from_document(options.config, given, recorded)
    found = choose(given.pop("model", None), given.pop("base_url", None), given.pop("api_key", None))
    given |= {"model": found.spec, "base_url": found.base_url, "api_key": found.api_key}
    given.setdefault("system_prompt", SYSTEM)
    if recorded is not None:
        given = recorded(given)
    return Client(**{**default_options(options), **given}), _about(found)


def make_toolbox(options: Namespace) -> Client:
    """A client for looking at what there is; it is never asked."""
    return client_without_model(options, source_options(options))


def client_without_model(options: Namespace, given: Mapping[str, Any]) -> Client:
    """A client of the document that `options` name, or of the defaults, with `given` in place of theirs."""
    if options.config is not None:
        from toolnexus.config.document import Document

        return Document.read(options.config).client(**given)
    return Client(**{**default_options(options), **given})


def _from_document(path: str, given: dict[str, Any], recorded: Change | None) -> tuple[Client, str]:
    from toolnexus.config.document import Document

    document = Document.read(path)
    if "model" in given or "base_url" in given:
        why = f"{given.get('model') or given['base_url']} (option)"
    elif (model := document.options().get("model")) is not None:
        why = f"{model if isinstance(model, str) else model.name} ({document.where})"
    else:
        found = choose()
        given |= {"model": found.spec, "base_url": found.base_url, "api_key": found.api_key}
        why = _about(found)
    if recorded is not None:
        given = recorded({**given, **document.endpoint(**given)})
    return document.client(**given), why


def _about(found: Found) -> str:
    return f"{found.spec} ({found.why})"


def _model_options(options: Namespace) -> dict[str, Any]:
    """Options of `Client` about the model that were given, and only those."""
    out: dict[str, Any] = {}
    if options.api_key_env is not None:
        out["api_key"] = os.environ.get(options.api_key_env, "").strip()
        if not out["api_key"]:
            raise UsageError(f"--api-key-env: the environment has no {options.api_key_env!r}")
    if options.store is not None:
        from toolnexus.stores.sqlite import SqliteStore

        out["store"] = SqliteStore(options.store)
    named = {
        "model": options.model,
        "base_url": options.base_url,
        "system_prompt": options.system,
        "max_turns": options.max_turns,
    }
    return out | {name: value for name, value in named.items() if value is not None}


def source_options(options: Namespace) -> dict[str, Any]:
    """Options of `Client` about tools and agents that were given, and only those."""
    out: dict[str, Any] = {}
    if options.agents is not None:
        from toolnexus.agents.files import read_agents

        found = read_agents(options.agents)
        tell_notes(found.report)
        out["agents"] = found.agents
    named = {
        "mcp": options.mcp,
        "skills": options.skills,
        "builtins": _builtins(options),
        "workdir": options.workdir,
    }
    return out | {name: value for name, value in named.items() if value is not None}


def default_options(options: Namespace) -> dict[str, Any]:
    """Options of `Client` without a config document: builtins that change nothing, and two agents."""
    builtins = _builtins(options)
    chosen = SAFE_BUILTINS if builtins is None else builtins
    return {"builtins": chosen, "agents": _agents(chosen, more=bool(options.mcp or options.skills))}


def _builtins(options: Namespace) -> bool | Sequence[str] | None:
    if options.no_builtins:
        return False
    if options.builtins is None:
        return None
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


def tell_notes(lines: Sequence[str]) -> None:
    """Lines about what was read and not carried over, on stderr."""
    for line in lines:
        print(printable(f"note: {line}"), file=sys.stderr)
