"""The models of one client: its own, its agents', and those that `task` may name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolnexus.errors import ConfigError
from toolnexus.models.base import Model
from toolnexus.models.http import HttpPool
from toolnexus.models.registry import checked_model, near, resolve


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
        self._given: list[tuple[Model, Model]] = []
        """Model objects as they were given, and what runs for them."""
        self.default: Model | None = None
        if model is not None and not isinstance(model, str):
            if base_url or api_key or headers:
                raise ConfigError(
                    "base_url, api_key and headers go with a model given as a string; "
                    "a model object carries its own"
                )
            self.default = self.resolve(model)
        elif model is not None:
            self.default = resolve(
                model, base_url=base_url, api_key=api_key, headers=headers, pool=self._pool
            )
            self._by_spec[model] = self.default

    def resolve(self, spec: str | Model) -> Model:
        """The model that `spec` means. Raises `ConfigError` that says what is allowed."""
        standing_for = getattr(self.default, "standing_for", None)  # a record has a word in every request
        if not isinstance(spec, str):
            if spec is self.default:
                return spec
            found = next((runs for given, runs in self._given if given is spec), None)
            if found is None:
                found = checked_model(spec) if standing_for is None else standing_for(checked_model(spec))
                self._given.append((spec, found))
            return found
        known = self._by_spec.get(spec)
        if known is None:
            if standing_for is not None:
                known = standing_for(spec)
            else:
                known = near(self.default, spec) or resolve(spec, pool=self._pool)
            self._by_spec[spec] = known
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
    def pool(self) -> HttpPool:
        """The connections of the client."""
        return self._pool

    @property
    def secrets(self) -> list[str]:
        """Keys and header values in use, for the redactor."""
        used: list[Any] = [*self._by_spec.values(), *(runs for _, runs in self._given)]
        return [secret for model in used for secret in getattr(model, "secrets", ())]

    async def aclose(self) -> None:
        """Close idle connections; a model object opens its own again when it is used again."""
        for model in [*self._by_spec.values(), *(runs for _, runs in self._given)]:
            await model.aclose()
        await self._pool.aclose()
