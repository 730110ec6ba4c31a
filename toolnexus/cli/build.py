"""The client behind the commands: a config document, or the options alone."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from toolnexus.cli.detect import Found, choose
from toolnexus.cli.exits import UsageError
from toolnexus.cli.notes import tell_notes
from toolnexus.client import Client
from toolnexus.engine.agent import Agent
from toolnexus.runtime.questions import OnRequest
from toolnexus.stores.address import store_at
from toolnexus.stores.memory import MemoryStore
from toolnexus.tools.permissions import NO_RULE, is_rule

if TYPE_CHECKING:
    from toolnexus.config.document import Document

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
    says; without, there are two agents. Nobody who names no builtins gets more than `SAFE_BUILTINS`.
    `recorded` gets the options of the client, the model among them, and gives those to use. Raises
    `ConfigError`, and `UsageError` when there is no model.
    """
    given: dict[str, Any] = {**given_options(options), "on_request": on_request}
    if options.config is not None:
        document = _document(options, given)
        about = _model(document, given)
        if "prices" not in document.given:
            given |= _prices()
        if recorded is not None:
            given = recorded({**given, **document.endpoint(**given)})
        return document.client(**given), about
    found = choose(given.pop("model", None), given.pop("base_url", None), given.pop("api_key", None))
    given |= {"model": found.spec, "base_url": found.base_url, "api_key": found.api_key}
    given.setdefault("system_prompt", SYSTEM)
    given |= _prices()
    if recorded is not None:
        given = recorded(given)
    return Client(**{**_defaults(given), **given}), _about(found)


def _prices() -> dict[str, bool]:
    """A person at a terminal wants to know what it cost, where that can be known."""
    return {"prices": True} if find_spec("genai_prices") is not None else {}


def is_kept(client: Client) -> bool:
    """Whether its conversations outlive it."""
    return not isinstance(client.store, MemoryStore)


def make_toolbox(options: Namespace) -> Client:
    """A client for looking at what there is; it is never asked."""
    from toolnexus.config.unasked import unasked

    given = given_options(options)
    if options.config is not None:
        return _document(options, given).view(**given)
    return Client(**unasked({**_defaults(given), **given}))


def make_client_of(options: Namespace, given: dict[str, Any]) -> Client:
    """A client of the document that `options` name, or of the defaults, with `given` in place of theirs."""
    if options.config is not None:
        return _document(options, given).client(**given)
    return Client(**{**_defaults(given), **given})


def _document(options: Namespace, given: dict[str, Any]) -> Document:
    """The document. `given` gets the safe builtins when nobody names any, and its rules below those given."""
    from toolnexus.config.document import Document

    if not options.config.strip():
        raise UsageError("--config: give the path of a file")
    document = Document.read(options.config)
    if "builtins" not in document.given:
        given.setdefault("builtins", SAFE_BUILTINS)
    options.chosen_builtins = given.get("builtins")
    if "permissions" in given:
        given["permissions"] = document.permissions | given["permissions"]
    return document


def _model(document: Document, given: dict[str, Any]) -> str:
    """Which model is asked, and why. `given` gets what `choose` decides.

    Where an address is known already, that is the model's name alone: neither prompt nor key goes
    anywhere else.
    """
    if "model" in given:
        return f"{given['model']} (option)"
    if document.model_name is not None:
        return f"{document.model_name} ({document.where})"
    base_url, api_key = document.address(given)
    found = choose(None, base_url, api_key, "--base-url" if "base_url" in given else document.where)
    given["model"] = found.spec
    if base_url is None and found.base_url is not None:
        given["base_url"] = found.base_url
    return _about(found)


def _about(found: Found) -> str:
    return f"{found.spec} ({found.why})"


def given_options(options: Namespace) -> dict[str, Any]:
    """The options of `Client` that were given, and only those."""
    project: dict[str, Any] = {}
    if vars(options).get("project") is not None:
        from toolnexus.cli.trust import project_of

        project = project_of(options).options()
    out: dict[str, Any] = {
        name: vars(options).get(option)
        for name, option in (
            *((name, name) for name in ("mcp", "skills", "workdir", "model", "base_url", "max_turns")),
            ("system_prompt", "system"),
        )
    }
    out["builtins"] = _builtins(options)
    out["permissions"] = _permissions(options)
    if options.agents is not None:
        from toolnexus.agents.files import read_agents

        found = read_agents(options.agents, models=dict(options.agent_model))
        tell_notes(found.report)
        out["agents"] = found.agents
    elif options.agent_model and not project:
        raise UsageError(
            "--agent-model says what a model name in the files of --agents or --project means; give these"
        )
    if options.openapi:
        from toolnexus.tools.openapi.tools import openapi_tools

        out["tools"] = [tool for document in options.openapi for tool in openapi_tools(document)]
    out["api_key"] = given_key(options)
    if (place := vars(options).get("store")) is not None:
        out["store"] = store_at(place)
    options.chosen_builtins = SAFE_BUILTINS if out["builtins"] is None else out["builtins"]
    return project | {name: value for name, value in out.items() if value is not None}


def given_key(options: Namespace) -> str | None:
    """The key in the variable that `--api-key-env` names. Raises `UsageError` when there is none."""
    variable = vars(options).get("api_key_env")
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(f"--api-key-env: the environment has no {variable!r}")
    return key


def _permissions(options: Namespace) -> dict[str, str] | None:
    """The rules that were given; of one that is given twice the stricter holds."""
    rules: dict[str, str] = {}
    for verdict in ("allow", "ask", "deny"):
        for rule in vars(options).get(verdict) or ():
            if not is_rule(rule):
                raise UsageError(f"--{verdict}: {rule!r} {NO_RULE}")
            rules[rule.strip()] = verdict
    return rules or None


def _defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """What there is without a document and beside what was given."""
    chosen = given.get("builtins", SAFE_BUILTINS)
    return {"builtins": chosen, "agents": _agents(chosen, more=bool({"mcp", "skills", "tools"} & {*given}))}


def _builtins(options: Namespace) -> bool | Sequence[str] | None:
    if options.no_builtins:
        return False
    if options.builtins is None:
        return None
    names = [name.strip() for name in options.builtins.split(",") if name.strip()]
    return True if names == ["all"] else names


def _agents(builtins: bool | Sequence[str], *, more: bool) -> list[Agent]:
    """Two agents that look and change nothing of their own; servers and skills are theirs, too."""
    if builtins is False:  # then there is no `task` to reach them with
        return []
    look = [name for name in _LOOK if builtins is True or name in builtins]
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
