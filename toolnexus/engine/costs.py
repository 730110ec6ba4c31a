"""Ceilings of cost, and the cost of what runs elsewhere and says itself what it used."""

from __future__ import annotations

from dataclasses import replace

from toolnexus.core.usage import Usage
from toolnexus.errors import ConfigError
from toolnexus.runtime.context import RunContext
from toolnexus.runtime.pricing import Pricing


def needed_prices(ctx: RunContext) -> Pricing | None:
    """The prices, where a ceiling of cost needs them. Raises `ConfigError` when there are none."""
    if not ctx.frame.ledger.bounds_cost:
        return None
    if ctx.run.prices is None:
        raise ConfigError("a budget of cost needs prices: give the client prices=True, or a table of them")
    return ctx.run.prices


def check_price(ctx: RunContext, name: str) -> None:
    """Raises `ConfigError` below a ceiling of cost, when no price is known for `name`."""
    if (prices := needed_prices(ctx)) is not None:
        prices.check_name(name, None)


def priced(ctx: RunContext, usage: Usage, *names: str, host: str | None = None) -> Usage:
    """`usage` with the cost that it has by the first of `names` with a price at `host`, where somebody wants
    to know; one that it has, it keeps."""
    prices = ctx.run.prices
    if prices is None or usage.cost is not None:
        return usage
    costs = (prices.cost(usage, name, host) for name in names)
    return replace(usage, cost=next((cost for cost in costs if cost is not None), None))
