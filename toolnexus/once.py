"""One run without a client to keep."""

from __future__ import annotations

from typing import Any

import toolnexus
from toolnexus.client import Client
from toolnexus.core.result import RunResult
from toolnexus.models.base import Model
from toolnexus.runtime.context import Runnable


async def run(
    target: Runnable,
    input: Any,
    *,
    model: str | Model | None = None,
    output_type: Any = None,
    deps: Any = None,
    scratchpad: toolnexus.workflow.Scratchpad | None = None,
) -> RunResult:
    """Run `target` once, without a client to keep: `await toolnexus.run(agent, "…")`.

    `model` is for agents that name none; the builtins are there for agents that ask for them.
    Returns and raises what `Client.run` does.
    """
    async with Client(model=model) as client:
        return await client.run(target, input, output_type=output_type, deps=deps, scratchpad=scratchpad)
