"""`inference.Provider`, `inference.Assembly` and `inference.Router`: the models of a deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from toolnexus.core.names import did_you_mean
from toolnexus.graph.deployment.resources import ResourceInput
from toolnexus.graph.inference.targets import Target
from toolnexus.models.base import Model
from toolnexus.models.http import HttpPool
from toolnexus.models.registry import resolve


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ModelSettings(_Strict):
    """One model of an endpoint; a plain text is its `name`."""

    name: str = Field(min_length=1)
    """How the endpoint calls it."""
    outputs: list[Literal["text", "image", "audio", "video", "embedding", "transcription"]] | None = None
    """What it gives; absent: whatever an endpoint of this style can give."""


class Envelope(_Strict):
    """Where `request_metadata` of a request goes."""

    envelope: str = Field(min_length=1)
    """The field of the body that carries it."""


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class ProviderSettings(_Strict):
    """The settings of `inference.Provider/openai` and `inference.Provider/anthropic`."""

    id: str | None = Field(default=None, min_length=1)
    """The provider in `{provider, name}`; absent: the name of the resource."""
    profile: str = ""
    """What tells several ways to one model apart."""
    models: Annotated[list[Annotated[ModelSettings, BeforeValidator(_named)]], Field(min_length=1)]
    base_url: str | None = Field(default=None, min_length=1)
    api_key: str | None = None
    headers: dict[str, str] | None = None
    request_metadata: Envelope | None = None


class Provider:
    """The models of one endpoint, or of a host; closed with the deployment."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self.targets = tuple(targets)

    @property
    def secrets(self) -> list[str]:
        """What must never be shown."""
        return [secret for target in self.targets for secret in getattr(target.model, "secrets", ())]

    async def aclose(self) -> None:
        """Close idle connections, also when one of the models fails to."""
        async with AsyncExitStack() as stack:
            for target in self.targets:
                stack.push_async_callback(target.model.aclose)

    @classmethod
    def of(cls, value: Any) -> Provider | None:
        """The provider that a host gave as models by `provider/name`, or as `Target` objects; None for any
        other value."""
        if isinstance(value, cls):
            return value
        if isinstance(value, Mapping):
            items = cast("Mapping[Any, Any]", value).items()
            if all(isinstance(n, str) and "/" in n and isinstance(m, (Model, Target)) for n, m in items):
                return cls([_target(name, model) for name, model in items])
        elif isinstance(value, (list, tuple)):
            targets = cast("Sequence[Any]", value)
            if all(isinstance(target, Target) for target in targets):
                return cls(targets)
        return None


def _target(key: str, value: Model | Target) -> Target:
    provider, _, name = key.partition("/")
    target = value if isinstance(value, Target) else Target(model=value)
    return replace(target, provider=provider, name=name)


def make_provider(given: ResourceInput) -> Provider:
    """The models of one endpoint. Raises `ConfigError` for an address that is none, and without a key."""
    settings: ProviderSettings = given.settings
    metadata, pool = settings.request_metadata, HttpPool()
    return Provider(
        [
            Target(
                model=resolve(
                    f"{given.impl}:{model.name}",
                    base_url=settings.base_url,
                    api_key=settings.api_key,
                    headers=settings.headers,
                    pool=pool,
                ),
                provider=settings.id or given.name,
                name=model.name,
                profile=settings.profile,
                outputs=tuple(model.outputs or ()),
                metadata_field="" if metadata is None else metadata.envelope,
            )
            for model in settings.models
        ]
    )


@dataclass(frozen=True, slots=True)
class Assembly:
    """The models of several providers, and what their extensions mean."""

    targets: tuple[Target, ...]
    extensions: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]]


def make_assembly(given: ResourceInput) -> Assembly:
    """The models of the wired providers. Raises `ValueError` when two of them have one name."""
    out: dict[str, Target] = {}
    for key, provider in given.deps["provider"].items():
        for target in provider.targets:
            if str(target) in out:
                raise ValueError(f"deps.{key}: the model {str(target)!r} is there already")
            out[str(target)] = target
    extensions: dict[str, Any] = {}
    for key, decoders in given.deps.get("extension", {}).items():
        if twice := sorted(decoders.keys() & extensions.keys()):
            raise ValueError(f"deps.{key}: the extension {twice[0]!r} is there already")
        extensions |= decoders
    return Assembly(tuple(out.values()), extensions)


class RouterSettings(_Strict):
    """The settings of `inference.Router/unified`."""

    models: Annotated[list[str], Field(min_length=1)]
    """As `provider/name`, in the order in which they are tried; each for what it gives."""


def make_router(given: ResourceInput) -> list[Target]:
    """The models in the order in which they are tried. Raises `ValueError` for one that is not there."""
    known = {str(target): target for target in given.deps["target"].targets}
    for n, name in enumerate(given.settings.models):
        if name not in known:
            near, there = did_you_mean(name, known), ", ".join(sorted(known))
            raise ValueError(f"settings.models[{n}]: there is no model {name!r}{near}; models: {there}")
    return [known[name] for name in given.settings.models]
