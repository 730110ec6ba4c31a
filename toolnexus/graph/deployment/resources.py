"""Resources: what a deployment document may name, by kind and impl, and who makes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic import BaseModel

from toolnexus.core.names import did_you_mean
from toolnexus.errors import ConfigError
from toolnexus.graph.build import literal
from toolnexus.runtime.context import Runnable

Settings: TypeAlias = "type[BaseModel] | type[dict[str, Any]] | None"
"""The pydantic model of the settings, `dict` for any table, None: there are none."""


@dataclass(frozen=True, slots=True)
class Dep:
    """What a resource takes from another one, by the kind of that.

    With `many` the document may give several, as `key` and `key.<suffix>`; the factory gets a dict of them,
    by the keys as written.
    """

    kind: str
    required: bool = False
    many: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceInput:
    """What the factory of a resource gets.

    `deps` has the values of the deps that were wired, `settings` what the registered model makes of the
    document's (None without one), with variables filled in.
    """

    name: str
    """The name of the resource, of an engine the name of its agent."""
    kind: str
    impl: str
    deps: Mapping[str, Any] = field(default_factory=dict[str, Any])
    settings: Any = None
    folder: Path | None = None
    """What relative paths are relative to; None: the document came without one."""
    embedded: Mapping[str, str] = field(default_factory=dict[str, str])
    agents: Callable[[], Mapping[str, Runnable]] = dict
    """The agents of the deployment, once they are built."""

    def text(self, value: str | Mapping[str, Any]) -> str:
        """A text, or that of `{file: path}` or `{embed: name}`. Raises `ValueError`, also for a file
        outside of the folder."""
        return value if isinstance(value, str) else literal(value, self.folder, self.embedded)

    def path(self, name: str) -> Path:
        """The path of a file or folder, seen from the folder of the deployment; an absolute one is itself.
        Raises `ValueError` for a relative one without a folder."""
        if self.folder is None and not Path(name).is_absolute():
            raise ValueError(f"the path {name!r} has no folder to lie in; deploy a file, or give folder=")
        return (self.folder or Path()) / name


Factory = Callable[[ResourceInput], Any]
"""Makes the value of a resource. It starts nothing: a value with an async `open()` is opened with the
deployment, and one with `aclose()` or `close()` is closed with it. Raises `ValueError` or `ConfigError`
for what is wrong in the document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """One impl of one kind."""

    kind: str
    impl: str
    factory: Factory
    deps: Mapping[str, Dep]
    settings: Settings
    items: str | None

    def dep(self, key: str) -> tuple[str, Dep] | None:
        """The name and the declaration of the dep that a document means with `key`."""
        name, dot, suffix = key.partition(".")
        found = self.deps.get(name)
        return None if found is None or (dot and not (found.many and suffix)) else (name, found)


class ResourceRegistry:
    """Who makes what a deployment document names. `standard()` has what comes along."""

    def __init__(self) -> None:
        self._types: dict[str, dict[str, ResourceType]] = {}

    @classmethod
    def standard(cls) -> ResourceRegistry:
        """A registry with the kinds and impls of the manual."""
        from toolnexus.graph.deployment.kinds import add_standard

        registry = cls()
        add_standard(registry)
        return registry

    def register(
        self,
        kind: str,
        impl: str,
        factory: Factory,
        *,
        deps: Mapping[str, Dep | str] = MappingProxyType({}),
        settings: Settings = None,
        items: str | None = None,
    ) -> None:
        """Let `factory` make the resources of this kind and impl.

        `deps` says by key what it takes: a `Dep`, or a kind for an optional one. `settings` is the model of
        its settings; without one the document may give none. With `items` the value is a mapping whose values
        have that kind, and the document may name one of them as `resource/item`. Raises `ConfigError` for
        names that are none, a factory that is async, and a pair that is registered already.
        """
        for what, name in (("kind", kind), ("impl", impl)):
            if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError(f"the {what} of a resource is a text such as 'tool.Source', not {name!r}")
        if inspect.iscoroutinefunction(factory):
            raise ConfigError(
                f"the factory of {kind}/{impl} is async; make the value there, and give it an async open()"
            )
        impls = self._types.setdefault(kind, {})
        if impl in impls:
            raise ConfigError(f"{kind}/{impl} is registered already")
        impls[impl] = ResourceType(
            kind=kind,
            impl=impl,
            factory=factory,
            deps={key: dep if isinstance(dep, Dep) else Dep(dep) for key, dep in deps.items()},
            settings=settings,
            items=items,
        )

    def __iter__(self) -> Iterator[ResourceType]:
        return iter([made for impls in self._types.values() for made in impls.values()])

    def find(self, kind: str, impl: str) -> ResourceType | str:
        """The type of that kind and impl, or the text that says why there is none."""
        impls = self._types.get(kind)
        if impls is None:
            known = sorted(self._types)
            return f"no kind {kind!r} is known{did_you_mean(kind, known)}; known: {', '.join(known)}"
        if impl not in impls:
            known = sorted(impls)
            return f"{kind} has no impl {impl!r}{did_you_mean(impl, known)}; known: {', '.join(known)}"
        return impls[impl]
