"""What several commands share: options in groups, and the values that options take."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import TypeAlias

from toolnexus.cli.exits import TABLE

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Group: TypeAlias = "argparse._ArgumentGroup"


def add_command(
    commands: Commands,
    name: str,
    module: str,
    help: str,
    text: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=help, description=text, epilog=TABLE)
    parser.set_defaults(command=name, module=module, reported=())
    return parser


def add_display(parser: argparse.ArgumentParser) -> None:
    display = parser.add_mutually_exclusive_group()
    display.add_argument("--plain", action="store_true", help="plain lines instead of a live tree")
    display.add_argument(
        "--json", action="store_true", help="every event as one line of JSON on standard output"
    )


def add_model(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    model = parser.add_argument_group("model", "without --model: TOOLNEXUS_MODEL, a key, or a local server")
    model.add_argument("--model", metavar="PROVIDER:NAME", help="openai:NAME or anthropic:NAME")
    model.add_argument("--base-url", metavar="URL", help="another endpoint of that style")
    model.add_argument("--api-key-env", metavar="NAME", help="the variable that holds the key for it")
    return model


def add_client(parser: argparse.ArgumentParser) -> None:
    model = add_model(parser)
    model.add_argument("--system", metavar="TEXT", help="system prompt, instead of the built-in one")
    model.add_argument("--max-turns", type=count, metavar="N", help="requests per run (default 10)")
    add_sources(parser)
    add_rules(parser)


def add_memory(parser: argparse.ArgumentParser) -> Group:
    memory = parser.add_argument_group("memory")
    memory.add_argument(
        "--store",
        metavar="PLACE",
        help="keep conversations in this SQLite file, or at postgresql://… or redis://…",
    )
    return memory


def add_rules(parser: argparse.ArgumentParser) -> None:
    rules = parser.add_argument_group(
        "permissions",
        "a RULE is a tool, such as bash or 'github_*', or a tool and what it is called with: 'bash(git *)'. "
        "The most specific one holds; each comes before the same rule of the document",
    )
    for option, help in (
        ("--allow", "run such calls without asking"),
        ("--ask", "ask somebody before each such call"),
        ("--deny", "never run such calls"),
    ):
        rules.add_argument(
            option, metavar="RULE", action="append", default=[], help=f"{help}; may be repeated"
        )


def add_sources(parser: argparse.ArgumentParser) -> None:
    tools = parser.add_argument_group("tools")
    tools.add_argument(
        "--config", metavar="FILE", help="a config document; other options take the place of what it says"
    )
    tools.add_argument(
        "--project",
        metavar="DIR",
        help="all that hosts have in a project folder: agents, AGENTS.md, and once you trust it MCP servers "
        "and skills",
    )
    tools.add_argument("--mcp", metavar="FILE", help="MCP servers: a JSON or TOML file, as other hosts have")
    tools.add_argument(
        "--openapi",
        metavar="FILE",
        action="append",
        default=[],
        help="an OpenAPI document, a file or a URL, whose operations are tools; may be repeated (an address "
        "and keys for it go into a config document)",
    )
    tools.add_argument("--skills", metavar="DIR", action="append", help="a folder of skills; may be repeated")
    tools.add_argument(
        "--agents",
        metavar="PATH",
        action="append",
        help="files of agents, such as .claude/agents, or a project folder; may be repeated",
    )
    tools.add_argument(
        "--agent-model",
        type=alias,
        metavar="ALIAS=PROVIDER:NAME",
        action="append",
        default=[],
        help="what a model name in these files means, such as haiku=openai:gpt-5-nano; may be repeated",
    )
    builtins = tools.add_mutually_exclusive_group()
    builtins.add_argument(
        "--builtins",
        metavar="NAMES",
        help="builtin tools, with commas, or all (default where the document names none: "
        "read,grep,glob,question, which change nothing)",
    )
    builtins.add_argument("--no-builtins", action="store_true", help="no builtin tools")
    tools.add_argument(
        "--workdir", metavar="DIR", help="the folder that file tools stay in (default: this one)"
    )


def seconds(text: str) -> float:
    with suppress(ValueError):
        value = float(text)
        if 0 <= value <= 60:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} must be a number of seconds, 0 to 60")


def whole(text: str) -> int:
    with suppress(ValueError):
        value = int(text)
        if value >= 0:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, 0 or more")


def count(text: str) -> int:
    with suppress(ValueError):
        value = int(text)
        if value >= 1:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, 1 or more")


def reply(text: str) -> tuple[str, str]:
    id, equals, answer = text.partition("=")
    if not id.strip() or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} must look like req_1234=the answer")
    return id.strip(), answer


def port(text: str) -> int:
    with suppress(ValueError):
        value = int(text)
        if 0 <= value <= 65535:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} must be a port, 0 to 65535")


def alias(text: str) -> tuple[str, str]:
    name, _, model = text.partition("=")
    if not name.strip() or ":" not in model:
        raise argparse.ArgumentTypeError(f"{text!r} must look like haiku=openai:gpt-5-nano")
    return name.strip(), model.strip()
