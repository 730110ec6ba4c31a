"""`toolnexus graph run`: one run of a graph document, from the shell."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from toolnexus.cli import loop
from toolnexus.cli.build import given_options, make_client, make_client_of
from toolnexus.cli.exits import OF_STATUS, UsageError
from toolnexus.cli.graphs import read, registry, script_runtime_name, wrong
from toolnexus.cli.lines import LineReader
from toolnexus.cli.notes import tell_notes
from toolnexus.cli.person import Person
from toolnexus.cli.run import prompt_text, show
from toolnexus.cli.view.words import printable
from toolnexus.client import Client
from toolnexus.core.files import reason
from toolnexus.core.formats import READERS
from toolnexus.core.messages import user
from toolnexus.errors import ConfigError
from toolnexus.graph import (
    Board,
    BuildOptions,
    Checkpoint,
    Graph,
    GraphDefinition,
    GraphError,
    GraphRunError,
    Services,
    SqliteCheckpoints,
    build,
)

ASKING = ("inference", "agent")
"""The node types that cannot do without a model."""


class Kept(SqliteCheckpoints):
    """Checkpoints of one run, whose id is known once there is one."""

    run: str | None = None

    async def save(self, checkpoint: Checkpoint) -> None:
        self.run = checkpoint.exec_id
        await super().save(checkpoint)


def command(options: Namespace) -> int:
    """Run it once. Gives the exit code. Raises `UsageError`."""
    if options.resume is not None and options.checkpoints is None:
        raise UsageError("--resume goes on behind a checkpoint: give the file of --checkpoints")
    if options.resume is not None and not Path(options.checkpoints).exists():
        raise UsageError(f"--checkpoints: there is no file {options.checkpoints!r}")
    if options.resume is not None and (options.prompt or options.inputs or options.input_file):
        raise UsageError("--resume goes on with what the run was given; leave out the prompt and --input")
    definition, limits = read(options.file), _limits(options)
    try:
        board = Board(_variables(options))
    except GraphRunError as error:
        raise UsageError(f"--inputs: {error}") from None
    if options.prompt is not None:
        board.append("", user(prompt_text(options.prompt)))
    return loop.run(_run(options, definition, limits, board))


def _limits(options: Namespace) -> BuildOptions:
    given: dict[str, Any] = {
        "max_iterations": options.max_iterations,
        "timeout": options.timeout,
        "max_node_retries": options.retries,
        "parallel": {"enabled": options.parallel},
    }
    try:
        return BuildOptions(**{key: value for key, value in given.items() if value is not None})
    except GraphError as error:
        raise UsageError(f"--{'; --'.join(str(issue) for issue in error.issues)}") from None


def _variables(options: Namespace) -> dict[str, Any]:
    """What `--inputs` and `--input` say; of one that both have, the latter. Raises `UsageError`."""
    file = options.input_file
    if file is None:
        return dict(options.inputs)
    reader = READERS.get(Path(file).suffix.lower())
    if reader is None:
        raise UsageError(f"--inputs: {file!r} must end in {', '.join(READERS)}")
    try:
        data = reader(Path(file).read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"--inputs: {file!r} cannot be read: {reason(error)}") from error
    except ValueError as error:
        raise UsageError(f"--inputs: {file}: {error}") from error
    if not isinstance(data, Mapping):
        raise UsageError(f"--inputs: {file!r} must hold variables by name")
    return {**cast("Mapping[str, Any]", data), **dict(options.inputs)}


async def _run(options: Namespace, definition: GraphDefinition, limits: BuildOptions, board: Board) -> int:
    person = Person(LineReader(sys.stdin), sys.stderr)
    async with _client(options, definition, person) as client, _services(client, definition) as services:
        try:
            types = registry(services, options.types)
            graph = build(definition, types, limits, script_runtime_name=script_runtime_name(definition))
        except GraphError as error:
            raise wrong(options.file, error) from None
        # inputs are given by now, and a reference to what is missing is an error of its node
        tell_notes(f"{options.file}: {f}" for f in graph.warnings if f.kind != "unresolved_reference")
        kept = graph.checkpoints = None if options.checkpoints is None else Kept(options.checkpoints)
        begin: Board | Checkpoint = board
        if kept is not None:
            saved = await kept.list()  # a file that cannot be used is told before anything runs
            if options.resume is not None:
                begin = await _checkpoint(kept, saved, options.resume, graph)
                kept.run = begin.exec_id
        try:
            result = await show(client.stream(begin, target=graph), options, person)
        except BaseException:
            _tell_resume(kept, options)
            raise
        if result.status == "done" and kept is not None and kept.run is not None:
            await kept.delete(kept.run)
        elif result.status != "done":
            _tell_resume(kept, options)
        return OF_STATUS[result.status]


def _client(options: Namespace, definition: GraphDefinition, person: Person) -> Client:
    """A client with the tools of the options; its model is looked for only when a node needs one."""
    on_request = None if options.json else person
    if options.model is not None or any(node.type in ASKING for node in definition.nodes):
        return make_client(options, on_request)[0]
    return make_client_of(options, {**given_options(options), "on_request": on_request})


@asynccontextmanager
async def _services(client: Client, definition: GraphDefinition) -> AsyncGenerator[Services]:
    """What the client has, and the script runtime that the document wants."""
    from toolnexus.graph.scripts import JsRuntime, LuaRuntime

    types = {node.type for node in definition.nodes}
    name = script_runtime_name(definition)
    try:
        runtime = None if types <= {*ASKING, "tool"} else (JsRuntime() if name == "js" else LuaRuntime())
    except ConfigError:
        if "script" in types:
            raise
        runtime = None  # types of the user's own, which may do without
    try:
        yield client.services if runtime is None else replace(client.services, scripts={name: runtime})
    finally:
        if runtime is not None:
            await runtime.close()


async def _checkpoint(kept: SqliteCheckpoints, runs: Sequence[str], run: str, graph: Graph) -> Checkpoint:
    """Where that run stands; without an id the newest of the graph. Raises `UsageError` that lists them."""
    saved = [point for id in runs if (point := await kept.load(id)) is not None]
    own = [p for p in saved if (p.exec_id == run if run else p.spec_digest == graph.digest)]
    if not own:
        ids = ", ".join(runs) or "none"
        wanted = f"of the run {run!r}" if run else f"of this graph, {graph.name!r} as it is now"
        raise UsageError(f"{str(kept.path)!r} has no checkpoint {wanted}; its runs: {ids}")
    return max(own, key=lambda p: p.timestamp)


def _tell_resume(kept: Kept | None, options: Namespace) -> None:
    if kept is not None and kept.run is not None:
        words = ["toolnexus", "graph", "run", options.file, "--checkpoints", options.checkpoints]
        again = shlex.join([*words, "--resume", kept.run])
        print(printable(f"go on, with the same options: {again}"), file=sys.stderr)
