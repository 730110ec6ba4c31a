"""A value instead of a text: the model reads a ticket, asks a sub-agent, and answers with a Triage.

What to look at: the first answer does not fit, the model is told what is wrong and mends it; the
sub-agent's answer, of a JSON Schema, comes back to its caller as JSON.
"""

import asyncio
import os
from datetime import date
from typing import Literal

from pydantic import BaseModel, Field
from script import scripted

from toolnexus import Agent, Client, OutputError, tool


class Triage(BaseModel):
    """What to do about a ticket."""

    severity: Literal["low", "high"]
    team: str = Field(description="who takes it")
    hours: float = Field(gt=0, description="how long it will take")
    due: date | None = None


@tool
def ticket(number: int) -> str:
    """The text of a ticket."""
    return f"Ticket {number}: since Monday nobody can pay by card. Must work before 2026-03-01."


estimator = Agent(
    name="estimator",
    description="Estimates how many hours a repair takes.",
    tools=[],
    output_type={
        "type": "object",
        "properties": {"hours": {"type": "number"}, "sure": {"type": "boolean"}},
        "required": ["hours", "sure"],
    },
)


async def main() -> None:
    model = os.environ.get("TOOLNEXUS_MODEL") or scripted
    print("model:", model if isinstance(model, str) else model.name)

    async with Client(model=model, builtins=False, tools=[ticket], agents=[estimator]) as client:
        try:
            result = await client.ask("Triage ticket 7. Have the hours estimated.", output_type=Triage)
        except OutputError as error:
            print(f"\nno value: {error}")
            return

    triage = result.output
    if not isinstance(triage, Triage):  # a limit came first
        print(f"\n{result.status}: {result.text}")
        return
    for child in result.sub_agents:
        print(f"\nthe estimate: {child.output}")
    for message in result.messages[1:]:
        if message.role == "user":
            print(f"\n{message.text}")
    print(f"\n{triage.severity}: {triage.team}, {triage.hours:g} hours, due {triage.due}")


if __name__ == "__main__":
    asyncio.run(main())
