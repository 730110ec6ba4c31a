"""`shell`: commands in the sandbox."""

from __future__ import annotations

from typing import Any

from toolnexus.graph.sandbox import Sandbox, allowed, refused
from toolnexus.graph.scripts.bindings import Binding
from toolnexus.graph.scripts.bridges.arguments import invalid, shown
from toolnexus.graph.scripts.invocation import Invocation


def shell(invocation: Invocation, sandbox: Sandbox, names: frozenset[str] | None) -> Binding:
    """The global. `names` are the commands that may run; None: what the sandbox allows."""
    redact = invocation.ctx.rail.run.redact

    async def execute(command: Any, *arguments: Any) -> dict[str, Any]:
        if wrong := [word for word in (command, *arguments) if not isinstance(word, str)]:
            raise invalid(f"a command and its arguments are texts, not {shown(wrong[0])}")
        words = [*command.split(), *arguments]
        if not command.split():
            raise invalid("the command is empty")
        done = refused(words[0]) if not allowed(words[0], names) else await sandbox.exec(words, redact)
        return {**done._asdict(), "stdout": redact(done.stdout), "stderr": redact(done.stderr)}

    return Binding("shell", {"exec": execute})
