"""The port between files and the formats that agents are written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from toolnexus.engine.agent import Agent


@dataclass(slots=True)
class Remarks:
    """What a format has to say of one file; every line is `key: why`."""

    name: str | None = None
    """The name of the agent, also of one that cannot be made."""
    wrong: list[str] = field(default_factory=list[str])
    """Why there is no agent."""
    lost: list[str] = field(default_factory=list[str])
    """What the file says and the agent has not."""

    def fail(self, key: str, why: str) -> None:
        self.wrong.append(f"{key}: {why}")

    def lose(self, key: str, why: str) -> None:
        line = f"{key}: {why}"
        if line not in self.lost:
            self.lost.append(line)


AgentFormat = Callable[[str, Mapping[str, str], Remarks], Agent | None]
"""Makes an agent of the text of a file, with models by alias.

None: the text is wrong, which the remarks say, or (with nothing wrong) it defines no agent. A format
raises nothing, reads no other file, and neither runs nor expands what the text says.
"""
