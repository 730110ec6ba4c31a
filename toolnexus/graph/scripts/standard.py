"""The standard surface: what scripts can reach unless somebody says otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolnexus.core.names import did_you_mean
from toolnexus.core.options import count
from toolnexus.errors import ConfigError
from toolnexus.graph.sandbox import commands
from toolnexus.graph.scripts.bindings import Binding
from toolnexus.graph.scripts.bridges.board import board
from toolnexus.graph.scripts.bridges.expr import expr
from toolnexus.graph.scripts.bridges.fs import READ_BYTES, WRITE_BYTES, fs
from toolnexus.graph.scripts.bridges.host import host
from toolnexus.graph.scripts.bridges.identity import node, run
from toolnexus.graph.scripts.bridges.inference import inference
from toolnexus.graph.scripts.bridges.parallel import parallel
from toolnexus.graph.scripts.bridges.shell import shell
from toolnexus.graph.scripts.bridges.stream import stream
from toolnexus.graph.scripts.bridges.tools import tools
from toolnexus.graph.scripts.invocation import Function, Invocation
from toolnexus.graph.services import Services
from toolnexus.graph.tooling import toolkit_of

_ALWAYS = (board, expr, host, run, node, stream, parallel)


class StandardBindings:
    """`board`, `expr`, `host`, `run`, `node`, `stream`, `parallel` and `runtime`, and of `tools`,
    `inference`, `fs` and `shell` those whose service is wired.

    * `services`: what they use; None: the services of the node.
    * `tools`: the names of the tools that scripts may call, or True for all; None or `[]`: none.
    * `max_read_bytes`, `max_write_bytes`: how much one `fs.read` or `fs.write` may take; None: 1 and 8 MiB.
    * `shell`: the commands that `shell.exec` may run, as written or by their last name; `[]`: none; None:
      what the sandbox allows.

    Raises `ConfigError` for an option without its service, and for a tool that is not among those wired,
    where these are known already.
    """

    def __init__(
        self,
        services: Services | None = None,
        *,
        tools: Sequence[str] | bool | None = None,
        max_read_bytes: int | None = None,
        max_write_bytes: int | None = None,
        shell: Sequence[str] | None = None,
    ) -> None:
        self._services = services
        if isinstance(tools, str):
            raise ConfigError(f"StandardBindings: tools is a list of names or True, not {tools!r}")
        self._tools = None if tools is True else frozenset(tools or ())
        self._read = _cap("max_read_bytes", max_read_bytes, READ_BYTES)
        self._write = _cap("max_write_bytes", max_write_bytes, WRITE_BYTES)
        self._shell = None if shell is None else commands("StandardBindings: shell", shell)
        if services is not None:
            fs_set = max_read_bytes is not None or max_write_bytes is not None
            _check_wired(
                services, {"tools": tools is not None, "workspace": fs_set, "sandbox": shell is not None}
            )
            if not callable(services.toolkit):
                self._check_tools(services)

    def bind(self, invocation: Invocation) -> Sequence[Binding]:
        """See `BindingsProvider`."""
        services = self._services or invocation.services
        bound = [bridge(invocation) for bridge in _ALWAYS]
        if services.toolkit is not None:
            bound.append(tools(invocation, services, self._tools))
        if services.models is not None or services.wired("router"):
            bound.append(inference(invocation, services))
        if services.workspace is not None:
            bound.append(fs(services.workspace, self._read, self._write))
        if services.sandbox is not None:
            bound.append(shell(invocation, services.sandbox, self._shell))
        return bound

    def bind_late(self, invocation: Invocation, env: Mapping[str, Binding]) -> Sequence[Binding]:
        """`runtime`: scripts that a script runs have the same globals."""
        return [Binding("runtime", {"execScript": Function(None, "value, err")})]

    def _check_tools(self, services: Services) -> None:
        known = [tool.name for tool in toolkit_of(services) or ()]
        for name in sorted(self._tools or ()):
            if name not in known:
                near = did_you_mean(name, known)
                there = ", ".join(known) or "none"
                raise ConfigError(f"StandardBindings: there is no tool {name!r}{near}; tools: {there}")


def _cap(option: str, value: int | None, default: int) -> int:
    if value is None:
        return default
    count(f"StandardBindings: {option}", value, 1)
    return value


def _check_wired(services: Services, used: Mapping[str, bool]) -> None:
    for dep, is_used in used.items():
        if is_used and not services.wired(dep):
            raise ConfigError(f"StandardBindings: there are options for {dep}, and no {dep} is wired")
