"""The model of a document, and what is left of its endpoint when a host names another model."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from toolnexus.config import shape
from toolnexus.config.values import Filler
from toolnexus.errors import ConfigError
from toolnexus.models.base import Model
from toolnexus.models.http import check_headers
from toolnexus.models.keys import check_url
from toolnexus.models.registry import make, split_spec
from toolnexus.models.retry import RetryPolicy

OPTIONS = ("model", "base_url", "api_key", "headers")
"""The options of a client that belong together: a key is meant for one endpoint."""

_WRITTEN_OUT = "the key is written out; ${NAME} takes it from a variable, so that the file can be shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A model, where it is, and what goes with every request."""

    model: str | Model | None = None
    base_url: str | None = None
    api_key: str | None = None
    headers: Mapping[str, str] | None = None
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """`params`, `retries`, `wire` and `structured` of the model."""
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By option: the variables that its value needs and that are not set."""

    def options(self) -> dict[str, Any]:
        """Keyword arguments of a client; a model object where a name cannot say everything."""
        if self.more:
            return {"model": self.build("model")}
        given = {name: getattr(self, name) for name in OPTIONS}
        return {name: deepcopy(v) if name == "headers" else v for name, v in given.items() if v is not None}

    def build(self, place: str) -> Model:
        """A new model object.

        Raises `ConfigError` that begins with `place`, among others for a known host without a key.
        """
        assert isinstance(self.model, str)
        settings = {key: getattr(self, key) for key in OPTIONS[1:]} | deepcopy(dict(self.more))
        try:
            return make(self.model, **settings)
        except ConfigError as error:
            raise ConfigError(f"{place}: {error}") from None

    def used(self, overrides: Mapping[str, Any]) -> Endpoint:
        """What holds when the host gives some of the options itself.

        A key and headers stay with the endpoint that they were written for: they are left out when
        the host names another address or a model of another style. `more` is left out with the model.
        """
        given = {name: overrides[name] for name in OPTIONS if name in overrides}
        model = given.get("model", self.model)
        if "model" in given and not self._serves(model):
            return Endpoint(**given)
        gone = set(given)
        if given.get("base_url", self.base_url) != self.base_url:
            gone |= {"api_key", "headers"}
        kept = {name: getattr(self, name) for name in OPTIONS if name not in gone}
        return Endpoint(
            **kept | given,
            more=self.more if model == self.model else {},
            missing={name: lines for name, lines in self.missing.items() if name not in gone},
        )

    def _serves(self, model: object) -> bool:
        """Whether `model` is asked for at the same endpoint."""
        if not isinstance(model, str):
            return False
        if isinstance(self.model, str):
            return _style(model) == _style(self.model)
        return self.base_url is not None or "base_url" in self.missing


def _style(spec: str) -> str:
    return spec.partition(":")[0]


def read_endpoint(
    model: shape.Model, place: str, filler: Filler, report: list[str], *, option: str | None = None
) -> Endpoint:
    """The endpoint of a model's table. Variables that are not set count for `option`; None: each apart."""

    def key(name: str) -> str:
        if not place:
            return "model" if name == "name" else name
        return f"{place}.{name}"

    name = model.name and filler.text(model.name, key("name"), option or "model")
    base_url = model.base_url and filler.url(model.base_url, key("base_url"), option or "base_url")
    api_key = headers = None
    if model.api_key is not None:
        api_key = filler.secret(model.api_key, key("api_key"), option or "api_key")
        filler.redact.add(api_key or "")
        if model.api_key.strip() and "${" not in model.api_key:
            report.append(f"{key('api_key')}: {_WRITTEN_OUT}")
    if model.headers is not None:
        headers = filler.secrets(model.headers, key("headers"), option or "headers")
        filler.attempt(key("headers"), check_headers, headers)
    if name:
        filler.attempt(key("name"), split_spec, name)
    if base_url:
        filler.attempt(key("base_url"), check_url, base_url)
    more = model.given("params", "retries", "wire", "structured")
    if isinstance(policy := more.get("retries"), shape.Retries):
        more["retries"] = RetryPolicy(**policy.given())
    missing = {n: tuple(filler.missing[n]) for n in OPTIONS if option is None and n in filler.missing}
    return Endpoint(
        model=name, base_url=base_url, api_key=api_key, headers=headers, more=more, missing=missing
    )
