"""The port between files and the formats that agents are written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from toolnexus.engine.agent import Agent


@dataclass(slots=True)
class Remarks:
    """What a format has to say of one agent; every line is `key: why`."""

    name: str | None = None
    """The name of the agent, also of one that cannot be made."""
    wrong: list[str] = field(default_factory=list[str])
    """Why there is no agent."""
    lost: list[str] = field(default_factory=list[str])
    """What the file says and the agent has not."""
    place: str = ""
    """Where in its file it stands, in a file of several."""

    def fail(self, key: str, why: str) -> None:
        self.wrong.append(f"{key}: {why}")

    def lose(self, key: str, why: str) -> None:
        line = f"{key}: {why}"
        if line not in self.lost:
            self.lost.append(line)

    def leave_out(self, key: str, why: str) -> None:
        """The file means something that is no agent here: that is told, and takes no name."""
        self.name = None
        self.lose(key, f"the agent is left out: {why}")


@dataclass(frozen=True, slots=True)
class Written:
    """A file as a format gets it."""

    text: str
    name: str
    """What it is called by its place: the path below its folder of agents, without its ending."""
    models: Mapping[str, str]
    """What names of models mean."""


@dataclass(frozen=True, slots=True)
class Found:
    """One agent that a file defines."""

    agent: Agent | None
    """None: it is wrong or left out, which the remarks say."""
    remarks: Remarks


AgentFormat = Callable[[Written], Sequence[Found]]
"""Makes the agents of a file; none when it defines none.

A format raises nothing, reads no other file, and neither runs nor expands what the text says.
"""
