"""From a name such as `"openai:gpt-5-mini"` to a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

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
        hint = did_you_mean(provider, VENDORS) if colon else "; the provider in front is missing"
        raise ConfigError(
            f"model {spec!r} is not 'provider:name'{hint}. Providers: {', '.join(VENDORS)} "
            f"(any endpoint of those styles through base_url). Example: {_example(spec)!r}"
        )
    return cast(Provider, provider), name


def _example(spec: str) -> str:
    return _EXAMPLE["anthropic" if "claude" in spec else "openai"]


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
        if isinstance(spec, Model):  # pyright: ignore[reportUnnecessaryIsInstance]
            return spec
        raise ConfigError(f"model={spec!r} must be 'provider:name' or an object with name and generate")
    provider, name = split_spec(spec)
    from toolnexus.models.hosted import make_wire

    wire = make_wire(provider, None, base_url, api_key, headers, pool)
    if provider == "openai":
        from toolnexus.models.openai import OpenAIModel

        return OpenAIModel(name, wire=wire)
    from toolnexus.models.anthropic import AnthropicModel

    return AnthropicModel(name, wire=wire)
