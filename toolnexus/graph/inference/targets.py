"""Who may answer: the models of `Services`, by provider, name and profile, and in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from toolnexus.core.names import did_you_mean, listed
from toolnexus.errors import ConfigError
from toolnexus.graph.errors import GraphRunError
from toolnexus.graph.inference.intents import OUTPUTS
from toolnexus.graph.services import Services
from toolnexus.models.base import Model
from toolnexus.models.registry import checked_model, near

KINDS = (*OUTPUTS, "embedding", "transcription")
"""What a model may give."""
METHODS = {
    "text": "generate",
    "image": "generate_images",
    "audio": "speak",
    "video": "generate_video",
    "embedding": "embed",
    "transcription": "transcribe",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A model that a graph may ask, and how documents name it.

    `profile` tells apart several ways to one model. `outputs` is what it gives (`text`, `image`, `audio`,
    `video`, `embedding`, `transcription`), empty: whatever its class has a method for. `limits` is what is
    known of it (`max_input_tokens`, `max_output_tokens`), for scripts. `metadata_field` is the member of a
    body that carries `request_metadata`, empty: none does. Raises `ConfigError` for an unknown output.
    """

    model: Model
    provider: str = ""
    name: str = ""
    profile: str = ""
    outputs: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    metadata_field: str = ""

    def __post_init__(self) -> None:
        if unknown := [kind for kind in self.outputs if kind not in KINDS]:
            raise ConfigError(
                f"outputs={self.outputs!r}: {unknown[0]!r} is none; allowed: {', '.join(KINDS)}"
            )

    @property
    def ref(self) -> dict[str, Any]:
        """Its name, as documents write it."""
        id = {"provider": self.provider, "name": self.name}
        return {"id": id, "profile": self.profile} if self.profile else {"id": id}

    @property
    def descriptor(self) -> dict[str, Any]:
        """What is known of it, as JSON values."""
        made = [kind for kind in self.kinds if kind in OUTPUTS]
        operations = [
            *(["generate"] if made else []),
            *(["embed"] if "embedding" in self.kinds else []),
            *(["transcribe"] if "transcription" in self.kinds else []),
        ]
        return {
            **self.ref,
            "operations": operations,
            "capabilities": {"outputs": made},
            "limits": dict(self.limits),
        }

    def gives(self, kinds: Iterable[str]) -> bool:
        """Whether it gives all of `kinds`."""
        return all(kind in self.kinds for kind in kinds)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it gives."""
        return self.outputs or tuple([kind for kind in KINDS if hasattr(self.model, METHODS[kind])])

    def __str__(self) -> str:
        path = f"{self.provider}/{self.name}" if self.provider else self.name
        return f"{path} ({self.profile})" if self.profile else path


def exact(services: Services, provider: str, name: str, profile: str = "") -> Target:
    """The model that a document names. One model given alone serves the names of its own endpoint, and, when
    it has none, every name. Raises `GraphRunError`: not_available without models, not_found."""
    given = services.models
    if given is None:
        raise GraphRunError(
            "no models are wired; give them as Services(models=...)", kind="not_available", code="no_models"
        )
    targets = _targets(given)
    for target in targets:
        if (target.provider, target.name, target.profile) == (provider, name, profile):
            return target
    if not profile and (found := _made(given, targets, provider, name)) is not None:
        return Target(model=found, provider=provider, name=name)
    known = [str(target) for target in targets]
    asked = str(Target(model=targets[0].model, provider=provider, name=name, profile=profile))
    raise GraphRunError(
        f"model {asked!r} is none of this graph's: {listed(known)}{did_you_mean(asked, known)}",
        kind="not_found",
    )


def _made(given: Any, targets: Sequence[Target], provider: str, name: str) -> Model | None:
    spec = f"{provider}:{name}"
    if not isinstance(given, Model):
        if hasattr(given, "resolve"):  # the models of a client: any name of a provider that it has a key for
            try:
                return given.resolve(spec)
            except ConfigError as error:
                raise GraphRunError(str(error), kind="not_found") from error
        return None
    if len(targets) == 1 and not hasattr(given, "provider"):
        return given
    return near(given, spec)


def route(services: Services, hint: str | None, kinds: Sequence[str]) -> list[Target]:
    """The models to try, in order: the one that `hint` means, then the others as they were declared.

    A hint is `provider/name`, or the name alone where only one has it; any other is as good as none.
    Models that do not give all of `kinds` are left out. Raises `GraphRunError`: not_available without a
    router, validation when none gives all of `kinds`.
    """
    targets = routed(services)
    fitting = [target for target in targets if target.gives(kinds)]
    if not fitting:
        known = "; ".join([f"{target}: {', '.join(target.kinds)}" for target in targets])
        raise GraphRunError(
            f"no model of the router gives {' and '.join(kinds)} ({known})", kind="validation"
        )
    first = _hinted(targets, (hint or "").strip())
    if first is None or first not in fitting:
        return fitting
    return [first, *[target for target in fitting if target is not first]]


def routed(services: Services) -> list[Target]:
    """The models of the router, in order. Raises `GraphRunError` (not_available) when there is none."""
    if not services.wired("router"):
        raise GraphRunError(
            "no model is named and no router is wired; give one as Services(models=...)",
            kind="not_available",
            code="no_router",
        )
    if services.router is None or services.router is True:
        return _targets(services.models)
    known = {} if services.models is None else _by_name(_listed(services.models))
    return _targets(services.router, known)


def catalog(services: Services) -> list[Target]:
    """All models. Raises `GraphRunError` (not_available) when none are wired."""
    if services.models is None:
        raise GraphRunError("no models are wired; give them as Services(models=...)", kind="not_available")
    return _targets(services.models)


def _hinted(targets: Sequence[Target], hint: str) -> Target | None:
    provider, slash, name = hint.partition("/")
    if slash and provider and name:
        for target in targets:
            if (target.provider, target.name) == (provider, name):
                return target
    named = [target for target in targets if target.name == hint]
    return named[0] if len(named) == 1 else None


def _by_name(targets: Sequence[Target]) -> dict[str, Target]:
    out: dict[str, Target] = {}
    for target in targets:
        out.setdefault(target.name, target)
        out[str(target)] = target
    return out


def check_models(models: Any, router: Any) -> None:
    """Raises `ConfigError` for what somebody gave as models, or as a router of theirs, and is none."""
    known = {} if models is None else _by_name(_listed(models))
    if router is not None and not isinstance(router, bool):
        _listed(router, known)


def _targets(given: Any, known: Mapping[str, Target] | None = None) -> list[Target]:
    """What somebody gave as models, in order. Raises `GraphRunError` (not_available) when that is none."""
    found = _listed(given, known)
    if not found:
        raise GraphRunError("the models of this graph are none", kind="not_available")
    return found


def _listed(given: Any, known: Mapping[str, Target] | None = None) -> list[Target]:
    if isinstance(given, Mapping):
        return [_target(value, name, known) for name, value in cast("Mapping[str, Any]", given).items()]
    if isinstance(given, (list, tuple)):
        return [_target(value, None, known) for value in cast("Sequence[Any]", given)]
    if not isinstance(given, Model) and hasattr(given, "default"):  # the models of a client
        return [] if given.default is None else [_target(given.default, None, known)]
    return [_target(given, None, known)]


def _target(value: Any, name: str | None, known: Mapping[str, Target] | None) -> Target:
    """One model; `name` is how a mapping calls it: `provider/name` or `name`."""
    if isinstance(value, str):
        if known is None:
            raise ConfigError(f"models: {value!r} is a name; give the model, such as OpenAIModel({value!r})")
        if value not in known:
            raise ConfigError(f"the router names {value!r}, which is none of the models: {listed(known)}")
        return known[value]
    target = value if isinstance(value, Target) else Target(model=checked_model(value, "models"))
    provider = target.provider or getattr(target.model, "provider", "") or ""
    own = target.name or target.model.name
    if name is not None:
        front, slash, rest = name.partition("/")
        provider, own = (front, rest) if slash and front and rest else (provider, name)
    return replace(target, provider=provider, name=own)
