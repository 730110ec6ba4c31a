"""The entry point: options in, exit code out. Loads nothing that the command does not need."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from toolnexus.cli.exits import DONE, ERROR, INTERRUPTED, TABLE, USAGE, UsageError
from toolnexus.errors import ConfigError, ToolnexusError

FAULTS = ("kill-server", "hang", "deny", "limit")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code. Raises `SystemExit` for `--help` and wrong options."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    _tolerant_output()
    try:
        command: Callable[[argparse.Namespace], int] = import_module(options.module).command
        return command(options)
    except (UsageError, ConfigError) as error:
        return _fail(str(error), USAGE)
    except ToolnexusError as error:
        return _fail(str(error) or type(error).__name__, ERROR)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # the reader left: nothing more can be said, and the interpreter must not try at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ERROR


def make_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(
        prog="toolnexus", description="Agents with tools from everywhere, at the command line.", epilog=TABLE
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and leave")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_demo(commands)
    _add_run(commands)
    _add_chat(commands)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"toolnexus {version('toolnexus')}")
        except PackageNotFoundError:
            print("toolnexus (not installed)")
        parser.exit(DONE)


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = _command(
        commands,
        "demo",
        "toolnexus.cli.demo.command",
        "find a planted bug with two agents at once; needs no key",
        "A lead splits a goal, two agents find a planted bug at once, one of them writes a report. "
        "The model is scripted; tools, files, the MCP server and everything else are real.",
    )
    _add_display(demo)
    demo.add_argument("--fault", choices=FAULTS, help="break something in the middle and see what holds")
    demo.add_argument(
        "--live", action="store_true", help="use a real model: a key in the environment, or a local server"
    )
    demo.add_argument("--save", metavar="FILE", help="write the program that just ran to a new file")
    demo.add_argument(
        "--think",
        type=_seconds,
        default=0.3,
        metavar="SECONDS",
        help="artificial thinking time of the scripted model in each turn (default %(default)s)",
    )


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = _command(
        commands,
        "run",
        "toolnexus.cli.run",
        "ask a model once, with tools and agents",
        "Ask once. The answer goes to standard output, progress to standard error. Questions of the model "
        "are asked at the terminal; elsewhere they are declined, and with --json the run ends pending.",
    )
    run.add_argument("prompt", help="the request; - reads it from standard input")
    _add_display(run)
    _add_client(run)


def _add_chat(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    chat = _command(
        commands,
        "chat",
        "toolnexus.cli.chat",
        "talk with a model, with tools and agents",
        "Talk, one line at a time. /help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves.",
    )
    chat.add_argument("--plain", action="store_true", help="plain lines instead of a live tree")
    _add_client(chat)


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    module: str,
    help: str,
    text: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=help, description=text, epilog=TABLE)
    parser.set_defaults(command=name, module=module)
    return parser


def _add_display(parser: argparse.ArgumentParser) -> None:
    display = parser.add_mutually_exclusive_group()
    display.add_argument("--plain", action="store_true", help="plain lines instead of a live tree")
    display.add_argument(
        "--json", action="store_true", help="every event as one line of JSON on standard output"
    )


def _add_client(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("model", "without --model: TOOLNEXUS_MODEL, a key, or a local server")
    model.add_argument("--model", metavar="PROVIDER:NAME", help="openai:NAME or anthropic:NAME")
    model.add_argument("--base-url", metavar="URL", help="another endpoint of that style")
    model.add_argument("--api-key-env", metavar="NAME", help="the variable that holds the key for it")
    model.add_argument("--system", metavar="TEXT", help="system prompt, instead of the built-in one")
    model.add_argument("--max-turns", type=_count, default=10, metavar="N", help="default %(default)s")
    tools = parser.add_argument_group("tools")
    tools.add_argument("--mcp", metavar="FILE", help="MCP servers: a JSON or TOML file, as other hosts have")
    tools.add_argument("--skills", metavar="DIR", action="append", help="a folder of skills; may be repeated")
    builtins = tools.add_mutually_exclusive_group()
    builtins.add_argument(
        "--builtins",
        metavar="NAMES",
        help="builtin tools, with commas, or all (default: read,grep,glob,question, which change nothing)",
    )
    builtins.add_argument("--no-builtins", action="store_true", help="no builtin tools")
    tools.add_argument(
        "--workdir", metavar="DIR", help="the folder that file tools stay in (default: this one)"
    )
    memory = parser.add_argument_group("memory")
    memory.add_argument("--store", metavar="FILE", help="keep conversations in this SQLite file")
    memory.add_argument("--conversation", metavar="ID", help="begin or continue this one")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 60:
        raise argparse.ArgumentTypeError(f"{text!r} must be 0 to 60 seconds")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be 1 or more")
    return value


def _tolerant_output() -> None:
    """A character that the terminal cannot show must not end a run."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _fail(text: str, code: int) -> int:
    print(f"toolnexus: {text}", file=sys.stderr)
    return code
