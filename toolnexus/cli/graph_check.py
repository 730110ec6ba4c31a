"""`toolnexus graph check`: everything that is wrong in a graph document, and nothing run."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from toolnexus.cli.exits import DONE, USAGE
from toolnexus.cli.graphs import finding_lines, place, registry, script_runtime_name
from toolnexus.cli.view.words import printable
from toolnexus.graph import Graph, GraphDefinition, GraphError, Registry, Services, build


class Anything(Services):
    """Has whatever a node may need: a check asks nobody."""

    def wired(self, dep: str, script_runtime_name: str = "js") -> bool:
        return True


def command(options: Namespace) -> int:
    """Check each file. Gives the exit code. Raises `UsageError` for wrong `--types`."""
    types = registry(Anything(), options.types)
    fine = [_check(file, types, options) for file in options.files]
    return DONE if all(fine) else USAGE


def _check(file: str, types: Registry, options: Namespace) -> bool:
    try:
        definition = GraphDefinition.from_file(file)
        graph = build(definition, types, script_runtime_name=script_runtime_name(definition))
    except GraphError as error:
        if options.json:
            _print({"file": file, "ok": False, "findings": _findings(error), "warnings": []})
        else:
            for line in finding_lines(file, error):
                print(printable(line), file=sys.stderr)
        return False
    warnings = _warnings(graph)
    if options.json:
        _print({"file": file, "ok": True, "findings": [], "warnings": warnings})
    else:
        for found in warnings:
            told = f"{found['kind']}: node {found['node']!r}: {found['message']}"
            print(printable(f"{place(file, found['line'])} warning: {told}"))
        print(printable(f"{file}: ok"))
    return True


def _print(verdict: Mapping[str, Any]) -> None:
    print(json.dumps(verdict, ensure_ascii=False))


def _findings(error: GraphError) -> list[dict[str, Any]]:
    return [
        {"line": issue.line, "path": issue.path, "kind": issue.kind, "message": issue.message}
        for issue in error.issues
    ]


def _warnings(graph: Graph) -> list[dict[str, Any]]:
    lines, order = graph.definition.lines, [node.id for node in graph.definition.nodes]
    return [
        {
            "line": lines.get(f"nodes[{order.index(found.node_id)}]"),
            "kind": found.kind,
            "node": found.node_id,
            "message": found.message,
        }
        for found in graph.warnings
    ]
