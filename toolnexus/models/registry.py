"""From a name such as `"openai:gpt-5-mini"` to a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from toolnexus.core.names import did_you_mean
from toolnexus.errors import ConfigError
from toolnexus.models.base import Model
from toolnexus.models.http import HttpPool
from toolnexus.models.keys import VENDORS, Provider

_EXAMPLE = {"openai": "openai:gpt-5-mini", "anthropic": "anthropic:claude-sonnet-5"}


def split_spec(spec: str) -> tuple[Provider, str]:
    """Provider and model name of `"provider:name"`. Raises `ConfigError` that shows how it is written."""
    provider, colon, name = spec.partition(":")
    if not colon or not name or provider not in VENDORS:
        raise ConfigError(
            f"model {spec!r} is not 'provider:name': {_wrong(spec)} Providers: {', '.join(VENDORS)} "
            f"(any endpoint of those styles through base_url). Example: {_example(spec)!r}"
        )
    return cast(Provider, provider), name


def _wrong(spec: str) -> str:
    """What is wrong with `spec`, as a sentence."""
    provider, colon, name = spec.partition(":")
    if not colon or not provider:
        return "the provider in front is missing."
    if provider in VENDORS:
        return "the model name is missing."
    if near := did_you_mean(provider, VENDORS):
        return f"unknown provider {provider!r}{near}"
    if name.startswith("//"):
        return f"unknown provider {provider!r}; an address goes into base_url."
    style = "anthropic" if "claude" in spec else "openai"
    return f"unknown provider {provider!r}; a model of that name is '{style}:{spec}'."


def _example(spec: str) -> str:
    return _EXAMPLE["anthropic" if "claude" in spec else "openai"]


def checked_model(given: object, option: str = "model") -> Model:
    """`given`, which must be a model object. Raises `ConfigError` that says how to make one of it."""
    if isinstance(given, type):
        name = given.__name__
        raise ConfigError(f"{option}={name} is a class; pass an instance, such as {name}(…)")
    if isinstance(given, Model):
        return given
    if callable(given):
        name = getattr(given, "__name__", type(given).__name__)
        raise ConfigError(f"{option}={name} is a function; make it a model with FunctionModel(fn)")
    raise ConfigError(f"{option}={given!r} must be 'provider:name' or an object with name and generate")


def resolve(
    spec: str | Model,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    pool: HttpPool | None = None,
) -> Model:
    """The model that `spec` names; a `Model` is given back as it is.

    `base_url`, `api_key` and `headers` belong to a model given by name; `pool` holds its connections
    together with those of other models. Raises `ConfigError`.
    """
    if not isinstance(spec, str):
        for name, value in (("base_url", base_url), ("api_key", api_key), ("headers", headers)):
            if value is not None:
                raise ConfigError(f"{name} goes with a model given by name; set it on {spec!r} itself")
        return checked_model(spec)
    provider, _ = split_spec(spec)
    from toolnexus.models.hosted import make_wire

    return make(spec, wire=make_wire(provider, None, base_url, api_key, headers, pool))


def make(spec: str, **options: Any) -> Model:
    """The model that `spec` names, made with options of its class. Raises `ConfigError`."""
    provider, name = split_spec(spec)
    if provider == "openai":
        from toolnexus.models.openai import OpenAIModel

        return OpenAIModel(name, **options)
    from toolnexus.models.anthropic import AnthropicModel

    return AnthropicModel(name, **options)


def near(model: Model | None, spec: str) -> Model | None:
    """What `spec` means beside `model`: another one at the same endpoint; None when it says otherwise.

    A name without a provider, and one of the same provider, means that endpoint and key.
    """
    named = getattr(model, "named", None)
    if named is None:
        return None
    provider, colon, name = spec.partition(":")
    if not colon:
        return named(spec)
    return named(name) if provider == getattr(model, "provider", None) else None
