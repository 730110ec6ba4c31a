"""The port to what requests cost."""

from __future__ import annotations

from typing import Any, Protocol

from toolnexus.core.usage import Usage


class Pricing(Protocol):
    """What requests cost."""

    def check(self, model: Any) -> None:
        """Raises `ConfigError` when a request to `model` may be answered without a known price."""
        ...

    def check_name(self, name: str, host: str | None) -> None:
        """Raises `ConfigError` when no price is known for what is called `name` at `host`."""
        ...

    def cost(self, usage: Usage, name: str, host: str | None) -> float | None:
        """US dollars for `usage` of the model `name` at `host`; None when nobody knows."""
        ...
