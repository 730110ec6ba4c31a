"""The port of script runtimes: what the script node hands in, and what comes back.

What it is: one execution of one script, whose only way out are the functions of its surface. What it is
not: the surface itself (`bindings`) or the node. Above: the script node. Below: a pool of child processes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from toolnexus.errors import ToolnexusError

JSON = Any
"""A JSON value: None, bool, int, float, str, or a list or a dict with string keys of such values."""

LuaReturns = Literal["value", "value, err", "err"]
"""What a method returns in Lua. `"value"`: one value, and a failure is a Lua error. `"value, err"`: the
value and nil, or nil and the error. `"err"`: nil, or the error. In JS a failure always throws."""

ERROR_KINDS = ("validation", "not_found", "budget_exceeded", "policy_denied", "not_available", "internal")
"""The kinds of `signal.error`; any other is the last."""

INTERRUPT_KINDS = ("user_cancel", "user_input", "host_shutdown", "custom")
"""The kinds of `signal.interrupt`; any other is the last."""


@dataclass(frozen=True)
class Method:
    """A method of a global. A plain string in a surface stands for `Method(name)`.

    An empty table of Lua reaches it as `{}`: where it takes a list, that is an empty one.
    """

    name: str
    lua: LuaReturns = "value"


@dataclass(frozen=True)
class Handle:
    """What a host call returns for an object with methods of its own.

    A call of `next` on the handle `Handle("h1", ("next",))` reaches the host as `"h1.next"`. In Lua its
    methods return `value, err`, unless a `Method` says otherwise. Only a result that *is* a handle becomes
    one: no value that a script made up does. Valid until the script ends.
    """

    id: str
    methods: Sequence[str | Method]


@dataclass(frozen=True)
class Signal:
    """How a script stopped itself with `signal.done`, `signal.error` or `signal.interrupt`.

    `kind` is one of `ERROR_KINDS` or `INTERRUPT_KINDS`, and empty for `"done"`.
    """

    type: Literal["done", "error", "interrupt"]
    kind: str = ""
    message: str = ""
    detail: JSON = None


class ScriptError(ToolnexusError):
    """What a host function raises for the script to see: JS throws it, Lua returns or raises it.

    `kind` is the kind of the failure (`"validation"`, `"not_available"`, …).
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class ScriptFailure(ToolnexusError):
    """A script failed.

    `kind` is `"internal"` for an error that the script did not catch (`message` has its name and line) and
    for memory that ran out, `"timeout"` when its time was up, `"validation"` for what cannot be handed over,
    `"not_available"` when the runtime is closed, and the kind of an error of the host that it did not catch,
    which is then the `__cause__`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


HostCall = Callable[[str, list[JSON]], Awaitable[Any]]
"""`await host("board.getVar", ["x"])`: the result as a JSON value or a `Handle`. Raises `ScriptError` for
the script to see; any other exception stops the script and comes out of `exec`."""

Surface = Mapping[str, Sequence[str | Method] | Method]
"""The globals of a script and their methods: `{"board": ["getVar", Method("setVar", lua="err")]}`. A global
that is a method itself, `{"log": Method("log")}`, reaches the host as `"log"`."""

Constants = Mapping[str, JSON]
"""Plain values on globals, `{"board": {"MAIN_CHANNEL": "__main_channel"}}`, and globals that are no object:
`{"limits": [1, 2]}`."""


class ScriptRuntime(Protocol):
    """Executes scripts of one language. One runtime serves any number of executions at once."""

    language: str
    """`"js"` or `"lua"`."""
    supports_nested: bool
    """Whether `runtime.execScript` works; without, it answers with a `not_available` error."""

    async def exec(
        self,
        name: str,
        source: str,
        config: JSON,
        surface: Surface,
        host: HostCall,
        constants: Constants = ...,
    ) -> Signal | None:
        """Run `source` with fresh globals and return the signal that stopped it, or None at its end.

        `name` stands in error texts, `config` is the global of that name. The surface lists `runtime` when
        scripts may run other scripts; `runtime.execScript` is then answered without the host.
        Raises `ScriptFailure`, and whatever `host` raised other than `ScriptError`.
        """
        ...

    async def close(self) -> None:
        """Stop what still runs and free everything. May be called twice; `exec` fails afterwards."""
        ...
