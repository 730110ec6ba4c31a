"""What a host sets for its builtins, besides which ones there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, cast

from toolnexus.core.options import unknown_key
from toolnexus.core.values import frozen
from toolnexus.errors import ConfigError
from toolnexus.runtime.context import ContextKey
from toolnexus.tools.filters import NameFilter

_OF_TASK = ("task_continue", "task_background")
_KEYS = ("tools", "sandbox", "sandbox_network", "webfetch_allow", *_OF_TASK)


@frozen(kw_only=True)
class BuiltinOptions:
    """A parsed `builtins=`."""

    names: NameFilter = field(default=NameFilter())
    """Which builtins there are."""
    sandbox: Literal["auto"] | bool = False
    """Whether `bash` runs in a sandbox; `"auto"`: where the system has one."""
    sandbox_network: bool = False
    """Whether commands in the sandbox reach the network."""
    webfetch_allow: tuple[str, ...] = ()
    """Hosts that `webfetch` may reach although they are local or private."""
    task_continue: bool = False
    """Whether `task` can go on with an earlier run."""
    task_background: bool = False
    """Whether `task` can leave a run in the background."""

    @property
    def of_task(self) -> tuple[str, ...]:
        """The options that change `task`."""
        return tuple([name for name in _OF_TASK if getattr(self, name)])

    @classmethod
    def of(cls, spec: Any) -> BuiltinOptions:
        """The options that `spec` writes down.

        A filter (a bool, a list of names and globs, `{name: bool}`), or a mapping of `tools` (such a
        filter), `sandbox`, `sandbox_network`, `webfetch_allow`, `task_continue` and
        `task_background`. Raises `ConfigError` for any other.
        """
        if not isinstance(spec, Mapping) or not _KEYS_SET & set(cast("Mapping[Any, Any]", spec)):
            return cls(names=NameFilter.of(spec, "builtins"))
        options = cast("Mapping[Any, Any]", spec)
        for key in options:
            if key not in _KEYS:
                raise unknown_key("builtins", key, _KEYS)
        sandbox = options.get("sandbox", False)
        if sandbox != "auto" and not isinstance(sandbox, bool):
            raise ConfigError(f"builtins: sandbox is {sandbox!r}; allowed are True, False and 'auto'")
        hosts: Any = options.get("webfetch_allow", ())
        if isinstance(hosts, str) or not isinstance(hosts, Sequence):
            raise ConfigError(f"builtins: webfetch_allow is {hosts!r}; give a list of host names")
        for host in cast("Sequence[Any]", hosts):
            if not isinstance(host, str) or not host or "/" in host or host.count(":") == 1:
                raise ConfigError(
                    f"builtins: webfetch_allow holds {host!r}; give names without port, such as 'localhost'"
                )
        return cls(
            names=NameFilter.of(options.get("tools"), "builtins"),
            sandbox=sandbox,
            webfetch_allow=tuple(cast("Sequence[str]", hosts)),
            **{name: _flag(options, name) for name in ("sandbox_network", *_OF_TASK)},
        )


def _flag(options: Mapping[Any, Any], name: str) -> bool:
    value = options.get(name, False)
    if not isinstance(value, bool):
        raise ConfigError(f"builtins: {name} is {value!r}; allowed are True and False")
    return value


_KEYS_SET = frozenset(_KEYS)

OPTIONS: ContextKey[BuiltinOptions] = ContextKey("builtin_options")
"""Host value: the options of the client; outside of one the defaults hold."""
