"""Role: what several agents have in common, words and tools, kept in one place.

Above: hosts make agents from it. Below: the engine runs them as it runs any agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast
from weakref import ref

from toolnexus.core.options import expect, items
from toolnexus.core.usage import Budget
from toolnexus.engine.agent import Agent, ShouldContinue
from toolnexus.engine.environment import ENVIRONMENT, Environment
from toolnexus.engine.scope import ToolSpec
from toolnexus.errors import ConfigError
from toolnexus.models.base import Model
from toolnexus.runtime.context import Outcome, RunContext, Runnable
from toolnexus.runtime.questions import OnRequest


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that a role can do: `words` say it, `tools` make it true.

    `tools`: names and globs over the client's toolkit, and tools.
    """

    words: str
    tools: Sequence[str | ToolSpec] = ()

    def __post_init__(self) -> None:
        _text("Capability: words", self.words)
        tools = items("Capability: tools", self.tools, "give a list of names, globs and tools")
        object.__setattr__(self, "tools", tuple(tools))


class AgentOptions(TypedDict, total=False):
    """The options of `Agent` that an agent made from a role has for itself."""

    description: str
    model: str | Model | None
    agents: bool | Sequence[str | Runnable] | Mapping[str, bool] | None
    max_turns: int | None
    budget: Budget | None
    hooks: Sequence[object]
    on_request: OnRequest | None
    should_continue: ShouldContinue | None
    workdir: str | Path | None
    permissions: Mapping[str, str] | None
    output_type: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    persona: str
    judgments: tuple[str, ...]
    capabilities: tuple[Capability, ...]
    responsibilities: tuple[str, ...]

    @classmethod
    def of(cls, *, persona: Any, judgments: Any, capabilities: Any, responsibilities: Any) -> _Content:
        """Raises `ConfigError` that names the part."""
        able = items("Role: capabilities", capabilities, "give a list of Capability, or of text")
        able = [Capability(one) if isinstance(one, str) else one for one in able]
        for one in able:
            expect("Role: a capability", one, Capability, "give a Capability, or text")
        return cls(
            persona=_text("Role: persona", persona),
            judgments=_texts("judgments", judgments),
            capabilities=tuple(able),
            responsibilities=_texts("responsibilities", responsibilities),
        )

    @property
    def text(self) -> str:
        words = [one.words for one in self.capabilities]
        parts = (
            ("Judgments", self.judgments),
            ("Capabilities", words),
            ("Responsibilities", self.responsibilities),
        )
        lists = ["\n".join([f"## {title}", *(f"- {one}" for one in each)]) for title, each in parts if each]
        return "\n\n".join([self.persona, *lists])

    @property
    def tools(self) -> list[str | ToolSpec]:
        return [tool for one in self.capabilities for tool in one.tools]


class Role:
    """A template below `Agent`: agents made from it share its words and its tools.

    The system prompt of such an agent is, in this order: the persona; the judgments, the capabilities and the
    responsibilities as lists under headings, none for an empty one; and the agent's own instructions. Its
    tools are those of the capabilities and its own: a role without any gives none.
    """

    def __init__(
        self,
        persona: str,
        *,
        judgments: Sequence[str] = (),
        capabilities: Sequence[Capability | str] = (),
        responsibilities: Sequence[str] = (),
    ) -> None:
        """A capability that is text alone needs no tools. Raises `ConfigError`."""
        self._content = _Content.of(
            persona=persona,
            judgments=judgments,
            capabilities=capabilities,
            responsibilities=responsibilities,
        )
        self._made: list[ref[RoleAgent]] = []

    @property
    def persona(self) -> str:
        return self._content.persona

    @property
    def judgments(self) -> tuple[str, ...]:
        return self._content.judgments

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        return self._content.capabilities

    @property
    def responsibilities(self) -> tuple[str, ...]:
        return self._content.responsibilities

    def agent(
        self,
        name: str,
        *,
        instructions: str = "",
        tools: Sequence[str | ToolSpec] = (),
        **options: Unpack[AgentOptions],
    ) -> Agent:
        """An agent of this role; `instructions` and `tools` are its own, beside those of the role.

        `options` are those of `Agent`. Raises `ConfigError`.
        """
        expect(f"agent {name!r}: instructions", instructions, str, "give text")
        own = tuple(items(f"agent {name!r}: tools", tools, "give a list of names, globs and tools"))
        made = RoleAgent(name=name, **options)
        object.__setattr__(made, "own", (instructions, own))
        made.become(made.seen_as(self._content))
        self._made = [one for one in self._made if one() is not None]
        self._made.append(ref(made))
        return made

    def edit(
        self,
        *,
        persona: str | None = None,
        judgments: Sequence[str] | None = None,
        capabilities: Sequence[Capability | str] | None = None,
        responsibilities: Sequence[str] | None = None,
    ) -> None:
        """Put other parts in place of these; None leaves one as it is.

        Every agent made from this role has the new words and tools from its next run on, wherever it is used;
        runs in flight go on as they were. Names of tools are checked at that run. Raises `ConfigError`, and
        changes nothing then.
        """
        given = {
            "persona": persona,
            "judgments": judgments,
            "capabilities": capabilities,
            "responsibilities": responsibilities,
        }
        parts = {name: part for name, part in given.items() if part is not None}
        old = {field.name: getattr(self._content, field.name) for field in fields(_Content)}
        content = _Content.of(**{**old, **parts})
        agents = [agent for one in self._made if (agent := one()) is not None]
        for agent, seen in [(agent, agent.seen_as(content)) for agent in agents]:
            agent.become(seen)
        self._content = content
        Environment.edits += 1

    def __repr__(self) -> str:
        return f"Role({self.persona!r})"


class RoleAgent(Agent):
    """An agent that is what its role says: each of its runs is one of the agent that it is by then."""

    __slots__ = ("__weakref__", "now", "own")

    now: Agent
    own: tuple[str, tuple[str | ToolSpec, ...]]

    def seen_as(self, content: _Content) -> Agent:
        """The agent with the words and tools of `content`. Raises `ConfigError`."""
        instructions, tools = self.own
        given: dict[str, Any] = {
            field.name: getattr(self, field.name) for field in fields(Agent) if field.init
        }
        prompt = "\n\n".join([content.text, *([instructions] if instructions else [])])
        every = {one if isinstance(one, str) else id(one): one for one in (*content.tools, *tools)}
        given.update(system_prompt=prompt, tools=list(every.values()))
        return Agent(**given)

    def become(self, agent: Agent) -> None:
        """Be `agent` from the next run on."""
        for name in ("system_prompt", "tools", "scope"):
            object.__setattr__(self, name, getattr(agent, name))
        object.__setattr__(self, "now", agent)

    async def execute(self, input: Any, ctx: RunContext) -> Outcome:
        environment = ctx.get(ENVIRONMENT)
        if environment is not None:  # the client knows this object, not what it is by now
            await environment.welcome(self)
        return await self.now.execute(input, ctx)

    def __copy__(self) -> Agent:
        return copy(self.now)


def _text(where: str, value: Any) -> str:
    expect(where, value, str, "give text")
    if not value.strip():
        raise ConfigError(f"{where} is empty")
    return value.strip()


def _texts(name: str, given: Any) -> tuple[str, ...]:
    entries = cast("Sequence[Any]", items(f"Role: {name}", given, "give a list of text"))
    return tuple([_text(f"Role: one of {name}", one) for one in entries])
