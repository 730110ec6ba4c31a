"""Graph documents at the command line: reading, and what is wrong, with the line of the file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolnexus.cli.exits import UsageError
from toolnexus.cli.named import named
from toolnexus.errors import ErrorKind
from toolnexus.graph import GraphDefinition, GraphError, Issue, Registry, Services

RUNTIMES = ("js", "lua")


def read(file: str) -> GraphDefinition:
    """The graph of a file. Raises `UsageError` with everything that is wrong."""
    try:
        return GraphDefinition.from_file(file)
    except GraphError as error:
        raise wrong(file, error) from None


def wrong(file: str, error: GraphError) -> UsageError:
    """What is wrong with the graph of a file."""
    return UsageError("\n".join([f"{file} is no graph that can run", *finding_lines(file, error)]))


def registry(services: Services, targets: Iterable[str]) -> Registry:
    """The built-in types, and those of the registries that `targets` name.

    Raises `UsageError` for what is no registry, `GraphError` for a type that two of them have.
    """
    out = Registry.standard(services)
    built_in = out.names()
    for target in targets:
        own = named(target, Registry, "registry", "package.module:registry")
        for name in own.names():
            found = own.get(name)
            if name not in built_in and found is not None:
                out.add(found)
    return out


def script_runtime_name(definition: GraphDefinition) -> str:
    """The runtime that the scripts of a document want, as the first of them says."""
    wanted = [node.config.get("runtime") for node in definition.nodes if node.type == "script"]
    return next((name for name in wanted if name in RUNTIMES), RUNTIMES[0])


def finding_lines(file: str, error: GraphError) -> Sequence[str]:
    """`file:line: path: message` for each finding."""
    return [
        f"{place(file, issue.line)} {issue.path}{': ' if issue.path else ''}"
        f"{issue.message.removeprefix(f'{file}: ')}{_hint(issue)}"
        for issue in error.issues
    ]


def _hint(issue: Issue) -> str:
    missing = issue.kind == ErrorKind.NOT_FOUND and issue.path.endswith("].type")
    return "; --types MODULE:NAME brings types of your own" if missing else ""


def place(file: str, line: int | None) -> str:
    """`file:line:`, where the line is known."""
    return f"{file}:{line}:" if line is not None else f"{file}:"
