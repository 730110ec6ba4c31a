"""Options for looking at what there is: no model of them can be asked, so none of them needs a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolnexus.core.model import ModelRequest, ModelResponse
from toolnexus.engine.agent import Agent
from toolnexus.errors import ModelError
from toolnexus.models.registry import split_spec


class Unasked:
    """A model by name, which answers nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Raises `ModelError`."""
        raise ModelError(f"{self.name!r} cannot be asked: its client is there to be looked at")

    async def aclose(self) -> None:
        """Nothing is open."""


def unasked(options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` of a client with models that keep their names. Raises `ConfigError` for a wrong one."""
    out = {name: value for name, value in options.items() if name not in ("base_url", "api_key", "headers")}
    out["model"] = _named(options.get("model") or "none")
    if options.get("agents"):
        out["agents"] = [_agent(agent) for agent in options["agents"]]
    if options.get("allowed_models") is not None:
        out["allowed_models"] = [_named(model) for model in options["allowed_models"]]
    return out


def _agent(agent: Any) -> Any:
    return replace(agent, model=_named(agent.model)) if isinstance(agent, Agent) and agent.model else agent


def _named(model: Any) -> Any:
    if not isinstance(model, str):
        return model
    if ":" in model:
        split_spec(model)
    return Unasked(model)
