"""What requests cost: prices that a host gives, and those of a price library.

The library is `genai-prices` (extra `cost`). It is asked by host and model, so a model of a known name
at another host, a local one for example, has no price of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import cast

from toolnexus.core.options import expect, install
from toolnexus.core.usage import Price, Usage
from toolnexus.errors import ConfigError
from toolnexus.models.base import Model

_ALLOWED = "give True, or prices by model name, such as {'my-model': Price(input=0.5, output=2)}"


class Prices:
    """Prices by model name first, then those of the library, when it is installed."""

    def __init__(self, given: bool | Mapping[str, Price]) -> None:
        """Raises `ConfigError` for anything else than prices, and for True without the library."""
        expect("prices", given, (bool, Mapping), _ALLOWED)
        self._own: dict[str, Price] = {}
        if isinstance(given, Mapping):
            for name, price in given.items():
                expect(f"prices[{name!r}]", price, Price, _ALLOWED)
            self._own.update(given)
        self._has_library = find_spec("genai_prices") is not None
        if not self._has_library and not self._own:
            raise ConfigError(f"there are no prices: {install('cost')}, or {_ALLOWED}")
        self._priced: set[tuple[str, str | None]] = set()

    def load(self) -> None:
        """Load the library, which takes some tenths of a second; safe on a thread."""
        if self._has_library:
            import genai_prices

            genai_prices.data_snapshot.get_snapshot()

    def check(self, model: Model) -> None:
        """Raises `ConfigError` when a request to `model` may be answered without a known price."""
        for one in cast("Iterable[Model]", getattr(model, "models", ())):
            self.check(one)
        if not hasattr(model, "models"):
            self.check_name(model.name, getattr(model, "host", None))

    def check_name(self, name: str, host: str | None) -> None:
        """Raises `ConfigError` when no price is known for what is called `name` at `host`."""
        if (name, host) in self._priced:
            return
        if self.cost(Usage(), name, host) is None:
            raise ConfigError(
                f"a budget of cost cannot hold: no price is known for {name!r}; give one, "
                f"such as prices={{{name!r}: Price(input=0.5, output=2)}}, or leave the cost out"
            )
        self._priced.add((name, host))

    def cost(self, usage: Usage, name: str, host: str | None) -> float | None:
        """US dollars for `usage` of the model `name` at `host`; None when nobody knows."""
        if (price := self._own.get(name)) is not None:
            return price.of(usage)
        if host is None or not self._has_library:
            return None
        from genai_prices import Usage as Amounts
        from genai_prices import calc_price

        cached = min(usage.cached_tokens, usage.prompt_tokens)
        amounts = Amounts(
            input_tokens=usage.prompt_tokens,
            cache_read_tokens=cached,
            cache_write_tokens=min(usage.cache_write_tokens, usage.prompt_tokens - cached),
            output_tokens=usage.completion_tokens,
        )
        try:
            return float(calc_price(amounts, name, provider_api_url=f"https://{host}/").total_price)
        except LookupError:
            return None
