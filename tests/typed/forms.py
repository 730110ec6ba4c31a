"""Forms of answers that the tests ask for, and a run that is asked for one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field

from toolnexus import Client, RunResult
from toolnexus.testing import ScriptedModel
from toolnexus.testing.scripted import Reply

PATIENCE = 20


class Finding(BaseModel):
    """What was found in one place."""

    risk: int = Field(ge=0, le=9, description="how bad it is")
    files: list[str] = []
    note: str | None = None


class Tree(BaseModel):
    """Something that holds itself."""

    label: str
    below: list[Tree] = []


@dataclass
class Point:
    """A place."""

    x: int
    y: int = 7


async def asked(form: Any, *replies: Reply, **options: Any) -> tuple[RunResult, ScriptedModel]:
    """The result of one ask with `form`, and the model that gave `replies`."""
    model = ScriptedModel(replies)
    async with asyncio.timeout(PATIENCE), Client(model=model, builtins=False, **options) as client:
        return await client.ask("go", output_type=form), model


def last_user(model: ScriptedModel) -> str:
    """What the model read last."""
    return model.requests[-1].messages[-1].text
