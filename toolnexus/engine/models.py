"""The models of one client: its own, its agents', and those that `task` may name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolnexus.errors import ConfigError
from toolnexus.models.base import Model
from toolnexus.models.http import HttpPool
from toolnexus.models.registry import checked_model, resolve


class Models:
    """Turns what users write down into models, each name once.

    A name without a provider, and one of the same provider as the client's model, means that
    model's own endpoint and key; a key never goes to another host.
    """

    def __init__(
        self,
        model: str | Model | None,
        *,
        base_url: str | None,
        api_key: str | None,
        headers: Mapping[str, str] | None,
    ) -> None:
        self._pool = HttpPool()
        self._by_spec: dict[str, Model] = {}
        self._given: list[Model] = []
        if model is not None and not isinstance(model, str):
            if base_url or api_key or headers:
                raise ConfigError(
                    "base_url, api_key and headers go with a model given as a string; "
                    "a model object carries its own"
                )
            self.default: Model | None = self.resolve(model)
        elif model is not None:
            self.default = resolve(
                model, base_url=base_url, api_key=api_key, headers=headers, pool=self._pool
            )
            self._by_spec[model] = self.default
        else:
            self.default = None

    def resolve(self, spec: str | Model) -> Model:
        """The model that `spec` means. Raises `ConfigError` that says what is allowed."""
        if not isinstance(spec, str):
            if not any(spec is m for m in self._given):
                self._given.append(checked_model(spec))
            return spec
        known = self._by_spec.get(spec)
        if known is None:
            known = self._by_spec[spec] = self._near_default(spec) or resolve(spec, pool=self._pool)
        return known

    def allowed(self, specs: Iterable[str | Model]) -> dict[str, Model]:
        """`specs` by the names that a model may use for them: the bare one and the one as written."""
        out: dict[str, Model] = {}
        for spec in specs:
            model = self.resolve(spec)
            out[model.name] = model
            if isinstance(spec, str):
                out[spec] = model
        return out

    @property
    def secrets(self) -> list[str]:
        """Keys and header values in use, for the redactor."""
        used: list[Any] = [*self._by_spec.values(), *self._given]
        return [secret for model in used for secret in getattr(model, "secrets", ())]

    async def aclose(self) -> None:
        """Close idle connections; a model object opens its own again when it is used again."""
        for model in [*self._by_spec.values(), *self._given]:
            await model.aclose()
        await self._pool.aclose()

    def _near_default(self, spec: str) -> Model | None:
        named = getattr(self.default, "named", None)
        if named is None:
            return None
        if ":" not in spec:
            return named(spec)
        provider, _, name = spec.partition(":")
        return named(name) if provider == getattr(self.default, "provider", None) else None
