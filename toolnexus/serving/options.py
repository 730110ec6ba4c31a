"""What is served, and within which bounds: the options of `serve`, checked where they are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast

from toolnexus.core.options import count, expect, items, unknown_key, wrong
from toolnexus.errors import ConfigError
from toolnexus.runtime.context import Runnable
from toolnexus.tools.filters import FilterSpec, NameFilter

T = TypeVar("T", "A2AOptions", "McpOptions")

LOCAL = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine that no page in a browser can take on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class A2AOptions:
    """The client as an A2A agent."""

    name: str = "toolnexus"
    """What the card calls it."""
    description: str = "An agent."
    """What the card says of it."""
    version: str = "1.0"
    """The version of the agent, not of a protocol."""
    agent: str | Runnable | None = None
    """Who answers: a registered agent by its name, or any Runnable. None: the client's own loop."""
    token: str | None = field(default=None, repr=False)
    """What callers send as `Authorization: Bearer …`. None: nobody needs one."""
    url: str | None = None
    """The address that the card gives, when callers reach it by another than it listens on."""
    tasks: Any = None
    """Where tasks are kept: the path of an SQLite file, the URL of a database, a task store of the
    SDK, or None for memory, which keeps the latest."""
    retention_days: float = 30.0
    """How long a database keeps a task after its last change, also one that waits for an answer."""

    def __post_init__(self) -> None:
        for name in ("name", "description", "version"):
            _text(f"a2a.{name}", getattr(self, name))
        _token("a2a.token", self.token)
        if self.agent is not None:
            expect("a2a.agent", self.agent, (str, Runnable), "give the name of an agent, or a Runnable")
        if self.url is not None:
            _text("a2a.url", self.url)
            if not self.url.startswith(("http://", "https://")):
                raise ConfigError(f"a2a.url={self.url!r}: give an http or https address")
        if self.tasks is not None and isinstance(self.tasks, str) and not self.tasks:
            raise ConfigError("a2a.tasks='': give the path of a file or the URL of a database")
        _positive("a2a.retention_days", self.retention_days, "days")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """The client's tools as an MCP server."""

    name: str = "toolnexus"
    """What the server calls itself."""
    instructions: str | None = None
    """What a model of the caller should know of it."""
    tools: FilterSpec = None
    """Which tools: names and globs, or `{name: bool}`. None: all of them."""
    agents: Sequence[str | Runnable] = ()
    """Agents of the client by their names, and any Runnable: each is one more tool that takes a `prompt`."""
    token: str | None = field(default=None, repr=False)
    """What callers send as `Authorization: Bearer …`. None: nobody needs one."""

    def __post_init__(self) -> None:
        _text("mcp.name", self.name)
        if self.instructions is not None:
            _text("mcp.instructions", self.instructions)
        _token("mcp.token", self.token)
        NameFilter.of(self.tools, "mcp.tools")
        agents = items("mcp.agents", self.agents, "give a list of names of agents, and of Runnables")
        for agent in agents:
            if not isinstance(agent, Runnable) or isinstance(agent, type):
                _text("mcp.agents", agent)
        object.__setattr__(self, "agents", agents)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one server takes on."""

    max_concurrent: int = 64
    """Runs and tool calls at once, of both protocols together."""
    max_body: int = 20 * 1024 * 1024
    """Bytes of one request: files come in it as base64."""
    deadline: float = 600.0
    """Seconds of one run or call, those of waiting for an answer apart."""

    def __post_init__(self) -> None:
        count("max_concurrent", self.max_concurrent, 1)
        count("max_body", self.max_body, 1)
        _positive("deadline", self.deadline, "seconds")


def read_options(where: str, kind: type[T], given: object) -> T | None:
    """The options that `given` (a mapping, True for the defaults, None or False for nothing) stands for.

    Raises `ConfigError` that names the key.
    """
    if given is None or given is False:
        return None
    if given is True:
        return kind()
    if isinstance(given, kind):
        return given
    expect(where, given, Mapping, "give a mapping of options, True or False")
    options = cast("Mapping[Any, Any]", given)
    allowed = [option.name for option in fields(kind)]
    for key in options:
        if key not in allowed:
            raise unknown_key(where, key, allowed)
    return kind(**{name: value for name, value in options.items() if value is not None})


def read_hosts(given: Iterable[str]) -> tuple[str, ...]:
    """Names that callers may use, without ports. Raises `ConfigError` for what is none."""
    hosts = items("allowed_hosts", given, "give a list of host names")
    for host in hosts:
        _text("allowed_hosts", host)
        if "/" in host or (":" in host and not host.startswith("[")):
            raise ConfigError(f"allowed_hosts: {host!r}: give a name alone, such as 'agents.example.com'")
    return tuple(host.lower() for host in hosts)


def _positive(option: str, value: object, unit: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong(option, value, f"give a number of {unit}")
    if not 0 < value < float("inf"):
        raise ConfigError(f"{option}={value!r} must be a number of {unit} above 0")


def _text(option: str, value: object) -> None:
    expect(option, value, str, "give a text")
    if not cast("str", value).strip():
        raise ConfigError(f"{option}={value!r} must not be empty")
    try:
        cast("str", value).encode()
    except UnicodeEncodeError:
        raise wrong(option, value, "it holds half of a surrogate pair; give a text of Unicode") from None


def _token(option: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise ConfigError(f"{option}: a token is a text, not {type(value).__name__}")
    if not value.isascii() or not value.isprintable() or " " in value or not value:
        raise ConfigError(
            f"{option}: a token has printable ASCII characters without spaces, and one at least"
        )
