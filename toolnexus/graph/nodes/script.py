"""`script`: runs a script, and types of nodes that are scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field

from toolnexus.errors import ErrorKind
from toolnexus.graph.board import Board
from toolnexus.graph.context import NodeContext
from toolnexus.graph.errors import GraphError, GraphRunError, Interrupted, Issue
from toolnexus.graph.registry import NodeType, Role
from toolnexus.graph.scripts.environment import Environment
from toolnexus.graph.scripts.invocation import Invocation
from toolnexus.graph.scripts.runtime import ScriptError, ScriptFailure, Signal
from toolnexus.graph.scripts.standard import StandardBindings
from toolnexus.graph.services import Services


class ScriptConfig(BaseModel):
    """The config of a `script` node."""

    model_config = ConfigDict(extra="forbid", strict=True)

    runtime: str
    """The name of the script runtime, which is the one of the graph."""
    source: str
    """The script, also as `{file: …}` or `{embed: …}`."""
    name: str = ""
    """What it is called in errors; empty: the id of the node."""
    config: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Its global `config`."""


async def run_script(
    ctx: NodeContext, board: Board, *, runtime: str, name: str, source: str, config: Mapping[str, Any]
) -> None:
    """Run one script as the work of this node.

    Raises `GraphRunError` with the kind that the script, or what it called and did not catch, failed with
    (internal for an error of its own, timeout when its time was up), and `Interrupted`.
    """
    executing = ctx.services.scripts[runtime]
    invocation = Invocation(ctx, board, executing, name)
    provider = ctx.services.script_bindings
    async with invocation.closing:
        env = Environment(provider or StandardBindings(), invocation)
        if (tracing := ctx.rail.run.tracing) is not None:
            source_of = "standard" if provider is None else "engine"
            tracing.note({"script.bindings.count": len(env.bindings), "script.bindings.source": source_of})
        try:
            signal = await executing.exec(name, source, config, env.surface, env.call, env.constants)
        except ScriptFailure as failure:
            raise _failed(failure) from failure
    if signal is not None and signal.type != "done":
        raise _stopped(signal, name)


def _failed(failure: ScriptFailure) -> GraphRunError:
    """The failure of a script as one of its node. What a bridge failed with is still known."""
    caught = failure.__cause__
    origin = caught.__cause__ if isinstance(caught, ScriptError) else None
    kind = failure.kind if failure.kind in list(ErrorKind) else ErrorKind.INTERNAL
    retry_after, code = getattr(origin, "retry_after", None), getattr(origin, "code", None)
    return GraphRunError(str(failure), kind=kind, retry_after=retry_after, code=code)


def _stopped(signal: Signal, name: str) -> GraphRunError:
    """How a node ends that a script stopped with `signal.error` or `signal.interrupt`."""
    text = signal.message
    if signal.detail is not None:
        detail = signal.detail
        if not isinstance(detail, str):
            detail = json.dumps(detail, ensure_ascii=False, separators=(",", ":"))
        text = f"{text} ({detail})" if text else detail
    if signal.type == "interrupt":
        return Interrupted(signal.kind, text)
    return GraphRunError(text or f"{name}: signal.error", kind=signal.kind)


async def _run(ctx: NodeContext, board: Board, config: ScriptConfig) -> None:
    await run_script(
        ctx,
        board,
        runtime=config.runtime,
        name=config.name or ctx.node_id,
        source=config.source,
        config=config.config,
    )


def _check(config: Mapping[str, Any], script_runtime_name: str) -> Sequence[Issue]:
    issues: list[Issue] = []
    runtime, source = config.get("runtime"), config.get("source")
    if not isinstance(runtime, str) or not runtime:
        issues.append(Issue(message="a script needs the name of its runtime", path="runtime"))
    elif runtime != script_runtime_name:
        issues.append(
            Issue(
                message=f"the script runtime {runtime!r} is not that of the graph, {script_runtime_name!r}: "
                "all scripts of a graph run in one, and script_runtime_name says in which",
                path="runtime",
                kind=ErrorKind.NOT_AVAILABLE,
            )
        )
    if not isinstance(source, Mapping) and (not isinstance(source, str) or not source.strip()):
        issues.append(Issue(message="a script needs a source that is not empty", path="source"))
    return issues


SCRIPT = NodeType(
    name="script",
    handler=_run,
    config=ScriptConfig,
    description="Runs a script in JavaScript or Lua over the board.",
    verbatim=frozenset(("source",)),
    texts=frozenset(("source",)),
    needs=lambda config: ("script_runtime",),
    check=_check,
)


def script_backed(
    type: str,
    source: str,
    reads: Sequence[Role],
    writes: Sequence[Role],
    description: str,
    services: Services | None,
    runtime: str | None,
) -> NodeType:
    """See `Registry.script_type`."""
    if not isinstance(source, str) or not source.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        issue = Issue(message=f"the node type {type!r} needs a source that is not empty", path="source")
        raise GraphError("", [issue])
    dep = "script_runtime" if runtime is None else f"script_runtime:{runtime}"
    return NodeType(
        name=type,
        handler=partial(_run_type, source, runtime),
        reads=tuple(reads),
        writes=tuple(writes),
        description=description,
        needs=lambda config: (dep,),
        services=services,
    )


async def _run_type(source: str, runtime: str | None, ctx: NodeContext, board: Board, config: Any) -> None:
    await run_script(
        ctx,
        board,
        runtime=runtime or ctx.script_runtime_name,
        name=ctx.node_id,
        source=source,
        config=cast("Mapping[str, Any]", config),
    )
