"""`toolnexus graph …`: the commands and their options."""

from __future__ import annotations

import argparse
import json
from typing import Any, cast

from toolnexus.cli.groups import Commands, add_command, add_display, add_model, add_rules, add_sources, whole

WARNINGS = ("toolnexus.graph.build",)
"""Who logs what is probably not meant in a graph: these commands say it in their own words."""


def add_graph(commands: Commands) -> None:
    """Add `graph` with its actions."""
    graph = commands.add_parser("graph", help="run, check or draw a graph document")
    graph.set_defaults(command=None)
    kind = cast("type[argparse.ArgumentParser]", _Anywhere)
    actions = graph.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=kind)
    _add_run(actions)
    _add_check(actions)
    _add_draw(actions)
    schema = add_command(
        actions,
        "schema",
        "toolnexus.cli.graph_schema",
        "print the JSON Schema of graph documents, for editors",
        "Print the JSON Schema of graph documents.",
    )
    schema.add_argument("--deployment", action="store_true", help="that of deployment documents instead")


class _Anywhere(argparse.ArgumentParser):
    """Takes FILE and PROMPT wherever they stand, also with options between them."""

    _within = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self._within:
            return super().parse_known_args(args, namespace)
        self._within = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._within = False


def _add_run(actions: Commands) -> None:
    run = add_command(
        actions,
        "run",
        "toolnexus.cli.graph_run",
        "run a graph document",
        "Run a graph: PROMPT is the user's message, --input a variable. What the graph said last goes to "
        "standard output, or its variables when it said nothing; progress goes to standard error. Questions "
        "are asked at the terminal; elsewhere they are declined, but with --json the run ends pending.",
    )
    run.set_defaults(reported=WARNINGS)
    run.add_argument("file", metavar="FILE", help="the graph, JSON or YAML")
    run.add_argument("prompt", nargs="?", metavar="PROMPT", help="a message; - reads it from standard input")
    run.add_argument(
        "--input",
        dest="inputs",
        type=_variable,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a variable; what is no JSON is text; may be repeated",
    )
    run.add_argument(
        "--inputs", dest="input_file", metavar="FILE", help="variables: a JSON, YAML or TOML file"
    )
    add_display(run)
    limits = run.add_argument_group("how it runs")
    limits.add_argument("--parallel", action="store_true", help="run the nodes of a wave at once")
    limits.add_argument(
        "--max-iterations", type=whole, metavar="N", help="most nodes (default 100; 0: any number)"
    )
    limits.add_argument("--timeout", metavar="DURATION", help="such as 30s or 1h30m (default: none)")
    limits.add_argument(
        "--retries", type=whole, metavar="N", help="how often a failed node is tried again (default 0)"
    )
    kept = run.add_argument_group("going on later")
    kept.add_argument("--checkpoints", metavar="FILE", help="keep where the run stands in this SQLite file")
    kept.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="RUN",
        help="go on behind the last checkpoint of that run (default: the newest of this graph)",
    )
    add_model(run)
    _add_types(run)
    add_sources(run)
    add_rules(run)


def _add_check(actions: Commands) -> None:
    check = add_command(
        actions,
        "check",
        "toolnexus.cli.graph_check",
        "say everything that is wrong in a graph document",
        "Read graph documents and say everything that is wrong, and what is probably not meant. Runs nothing "
        "and connects to nothing. Exit code 2 when something is wrong; a warning is not.",
    )
    check.set_defaults(reported=("toolnexus.graph", *WARNINGS))
    check.add_argument("files", nargs="+", metavar="FILE", help="a graph, JSON or YAML")
    check.add_argument("--json", action="store_true", help="one JSON object for each file, a line each")
    _add_types(check)


def _add_draw(actions: Commands) -> None:
    draw = add_command(
        actions,
        "draw",
        "toolnexus.cli.graph_draw",
        "draw a graph document",
        "Draw a graph: as Mermaid text, as DOT text, or as a picture, which Graphviz makes.",
    )
    draw.add_argument("file", metavar="FILE", help="a graph, JSON or YAML")
    draw.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="a file whose name ends in .mmd, .dot, .svg or .png (default: Mermaid on standard output)",
    )


def _add_types(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--types",
        metavar="MODULE:NAME",
        action="append",
        default=[],
        help="node types of your own: a Registry in a module, such as nodes:registry; may be repeated",
    )


def _variable(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} must look like name=value")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
