"""What a client and an agent have in common, checked in one place."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from toolnexus.core.options import count, expect, expect_callable, items, wrong
from toolnexus.core.usage import Budget
from toolnexus.errors import ConfigError
from toolnexus.models.registry import checked_model
from toolnexus.runtime.context import RunSettings
from toolnexus.stores.base import Store

if TYPE_CHECKING:
    from toolnexus.runtime.rights import Permissions


def run_settings(
    where: str,
    *,
    model: Any,
    system_prompt: Any,
    budget: Any,
    hooks: Any,
    on_request: Any,
    should_continue: Any,
    max_turns: Any,
    workdir: Any,
    permissions: Any = None,
) -> RunSettings:
    """The settings that these options make. Raises `ConfigError` that begins with `where`."""
    if model is not None and not isinstance(model, str):
        checked_model(model, f"{where}model")
    expect(f"{where}system_prompt", system_prompt, str, "give text ('' for none)")
    if budget is not None:
        expect(f"{where}budget", budget, Budget, "give a Budget, such as Budget(tokens=200_000)")
    expect_callable(f"{where}on_request", on_request, "give a function from a Request to an Answer")
    expect_callable(f"{where}should_continue", should_continue, "give a function from a RunResult to a bool")
    if max_turns is not None:
        count(f"{where}max_turns", max_turns, 1)
    given = items(f"{where}hooks", hooks, "give a list of objects, such as hooks=[MyHooks()]")
    for hook in given:
        if isinstance(hook, type):
            name = hook.__name__
            raise ConfigError(f"{where}hooks holds the class {name}; give an object: {name}()")
    if given:
        from toolnexus.runtime.hooks import HookSet

        HookSet(given)
    return RunSettings(
        budget=budget,
        hooks=given,
        on_request=on_request,
        max_turns=max_turns,
        workdir=None if workdir is None else folder(f"{where}workdir", workdir),
        permissions=_rules(f"{where}permissions", permissions),
    )


def _rules(option: str, value: Any) -> Permissions | None:
    if value is None:
        return None
    from toolnexus.tools.permissions import Rules

    layer = Rules.of(value, option)
    return layer if layer.rules else None


def folder(option: str, value: Any) -> str:
    """The absolute path of a folder option. Raises `ConfigError` for a file and for what is no path."""
    given: Any = os.fspath(cast("os.PathLike[Any]", value)) if isinstance(value, os.PathLike) else value
    expect(option, given, str, "give the path of a folder")
    path = os.path.realpath(given)
    if os.path.exists(path) and not os.path.isdir(path):
        raise ConfigError(f"{option}={str(given)!r} is a file; give the folder that file tools stay in")
    return path


def check_store(store: Any) -> None:
    """Raises `ConfigError` for what keeps no conversations."""
    if isinstance(store, str) or hasattr(store, "__fspath__"):
        raise wrong("store", store, f"give store=SqliteStore({str(store)!r})")
    if store is not None:
        expect("store", store, Store, "give a SqliteStore('chat.db'), a MemoryStore() or another Store")
