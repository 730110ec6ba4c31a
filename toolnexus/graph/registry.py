"""Node types by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction, isfunction
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

import toolnexus.graph
from toolnexus.errors import ErrorKind
from toolnexus.graph.errors import GraphError, Issue
from toolnexus.graph.services import Services

Handler = Callable[["toolnexus.graph.NodeContext", "toolnexus.graph.Board", Any], Awaitable[None]]
"""`async (ctx, board, config)`: does the work of one node. It fails with an exception; a `GraphRunError` says
of which kind the failure is."""
H = TypeVar("H", bound=Handler)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a node reads or writes, by a fixed name or by the config field that carries the name.

    A required read must be there before the node runs, a required write after it. Raises `GraphError`
    unless exactly one of `name` and `config_key` is given.
    """

    kind: Literal["var", "messages"] = "var"
    name: str | None = None
    config_key: str | None = None
    required: bool = False

    def __post_init__(self) -> None:
        if self.kind not in ("var", "messages"):
            raise _wrong("role", f"has the kind {self.kind!r}; allowed: var, messages")
        if bool(self.name) == bool(self.config_key):
            raise _wrong("role", "needs exactly one of name and config_key")

    @classmethod
    def var(cls, name: str | None = None, *, config_key: str | None = None, required: bool = False) -> Role:
        """A variable."""
        return cls(kind="var", name=name, config_key=config_key, required=required)

    @classmethod
    def messages(
        cls, name: str | None = None, *, config_key: str | None = None, required: bool = False
    ) -> Role:
        """A channel of messages; the field of `config_key` may be absent, which means the main channel."""
        return cls(kind="messages", name=name, config_key=config_key, required=required)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """What nodes of one type do.

    * `handler`: does the work; `config`: the pydantic model of a node's `config`, None: any, as a dict.
    * `reads`, `writes`: what it reads and writes.
    * `verbatim`: config fields in which references are not resolved; `texts`: fields that may be `{file: …}`
      or `{embed: …}`.
    * `needs`: tells, of a node's config, the services it cannot be without.
    * `check`: tells, of a node's config and the name of the graph's script runtime, what is wrong with it.
    """

    name: str
    handler: Handler
    config: type[BaseModel] | None = None
    reads: Sequence[Role] = ()
    writes: Sequence[Role] = ()
    description: str = ""
    verbatim: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    needs: Callable[[Mapping[str, Any]], Sequence[str]] | None = None
    check: Callable[[Mapping[str, Any], str], Sequence[Issue]] | None = None
    services: Services | None = None
    """Its own services, where they are not those of the registry."""


class Registry:
    """The node types that a graph may use."""

    def __init__(self, services: Services | None = None) -> None:
        self.services = services or Services()
        self._types: dict[str, NodeType] = {}
        self._fallback: Handler | None = None

    @classmethod
    def standard(cls, services: Services | None = None) -> Registry:
        """A registry with the built-in types: `inference`, `tool`, `script`, `agent`."""
        from toolnexus.graph.nodes import BUILT_IN

        registry = cls(services)
        for node_type in BUILT_IN:
            registry.add(node_type)
        return registry

    def add(self, node_type: NodeType) -> None:
        """Add a type. Raises `GraphError`: without a name (validation), or with a taken one (conflict)."""
        if not isinstance(node_type.name, str) or not node_type.name.strip():  # pyright: ignore
            raise _wrong("node type", "has no name")
        if node_type.name in self._types:
            raise _wrong("node type", f"{node_type.name!r} is registered already", ErrorKind.CONFLICT)
        self._types[node_type.name] = node_type

    def node_type(
        self,
        name: str,
        *,
        config: type[BaseModel] | None = None,
        reads: Sequence[Role] = (),
        writes: Sequence[Role] = (),
        description: str = "",
    ) -> Callable[[H], H]:
        """A decorator that adds a type of its own: `async (ctx, board, config) -> None`.

        Raises `GraphError` as `add` does, and for a function that is not async.
        """

        def register(handler: H) -> H:
            given: Any = handler
            if isfunction(given) and not iscoroutinefunction(given):
                raise _wrong(f"node type {name!r}", f"{given.__name__}() must be async: write async def")
            self.add(
                NodeType(
                    name=name,
                    handler=handler,
                    config=config,
                    reads=tuple(reads),
                    writes=tuple(writes),
                    description=description or (handler.__doc__ or "").strip(),
                )
            )
            return handler

        return register

    def script_type(
        self,
        type: str,
        source: str,
        *,
        reads: Sequence[Role] = (),
        writes: Sequence[Role] = (),
        description: str = "",
        services: Services | None = None,
        runtime: str | None = None,
    ) -> None:
        """Add a type whose work is a script; a node's config is its global `config`.

        `runtime` is the name of the script runtime, None: the graph's; `services` are its own, None: those of
        the registry. Raises `GraphError` as `add` does, and for a source that is empty.
        """
        from toolnexus.graph.nodes.script import script_backed

        self.add(script_backed(type, source, reads, writes, description, services, runtime))

    def fallback(self, handler: Handler) -> Handler:
        """Let `handler` do the work of every type that is not registered: for tests and proxies."""
        self._fallback = handler
        return handler

    def get(self, name: str) -> NodeType | None:
        """The type of that name, the fallback's, or None."""
        found = self._types.get(name)
        if found is None and self._fallback is not None:
            return NodeType(name=name, handler=self._fallback)
        return found

    def names(self) -> list[str]:
        """The names of the registered types, sorted."""
        return sorted(self._types)


def _wrong(what: str, problem: str, kind: ErrorKind = ErrorKind.VALIDATION) -> GraphError:
    return GraphError("", [Issue(message=f"a {what} {problem}", kind=kind)])
