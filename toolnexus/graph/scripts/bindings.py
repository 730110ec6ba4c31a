"""What a script can reach: named globals, made for each execution by one provider.

Above: the script node. Below: the bridges, which are the globals of the standard surface.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from toolnexus.graph.scripts.invocation import Invocation


@dataclass(frozen=True, slots=True)
class Binding:
    """One global of a script: `Binding("tokens", {"estimate": lambda text: len(text) // 4, "most": 4000})`.

    `value` maps names to functions and JSON values, or is a function or a JSON value itself. A function, sync
    or async, gets what the script gave (JSON values) and returns a JSON value; a sync one must not block, it
    runs on the event loop. What it raises is the script's to catch, with the kind of a `ScriptError` or
    `GraphRunError`, else as internal; only an interrupt and a spent budget end the node in any case.
    """

    name: str
    value: Any


class BindingsProvider(Protocol):
    """Gives the globals of each execution of a script. One provider serves all scripts of all runs at once.

    It may also have `bind_late(invocation, env) -> Sequence[Binding]`, which is called after every `bind` and
    sees what was bound so far, by name.
    """

    def bind(self, invocation: Invocation) -> Sequence[Binding]:
        """The globals of one execution."""
        ...


class NoBindings:
    """No globals at all but `config` and `signal`."""

    def bind(self, invocation: Invocation) -> Sequence[Binding]:
        """See `BindingsProvider`."""
        return ()


class _Chain:
    def __init__(self, providers: Sequence[BindingsProvider]) -> None:
        self._providers = providers

    def bind(self, invocation: Invocation) -> Sequence[Binding]:
        return [binding for provider in self._providers for binding in provider.bind(invocation)]

    def bind_late(self, invocation: Invocation, env: Mapping[str, Binding]) -> Sequence[Binding]:
        return [binding for provider in self._providers for binding in late(provider, invocation, env)]


def chain(*providers: BindingsProvider) -> BindingsProvider:
    """The globals of several providers. A name that two of them bind fails the execution."""
    return _Chain(providers)


def late(provider: BindingsProvider, invocation: Invocation, env: Mapping[str, Binding]) -> Sequence[Binding]:
    """What `provider` binds late, if it does."""
    bind_late = getattr(provider, "bind_late", None)
    return () if bind_late is None else cast("Sequence[Binding]", bind_late(invocation, env))
