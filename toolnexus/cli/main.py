"""The entry point: options in, exit code out. Loads nothing that the command does not need."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import cast

from toolnexus.cli.exits import ERROR, INTERRUPTED, USAGE, UsageError
from toolnexus.cli.parser import make_parser
from toolnexus.errors import ConfigError, ToolnexusError, UnknownNames


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code. Raises `SystemExit` for `--help` and wrong options."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    _tolerant_output()
    from toolnexus.cli.notes import noting  # logging takes longer than --version may

    try:
        command: Callable[[argparse.Namespace], int] = import_module(options.module).command
        with noting(options.reported):
            return command(options)
    except (UsageError, ConfigError) as error:
        return _fail(f"{error}{_remedy(error, options)}", USAGE)
    except ToolnexusError as error:
        return _fail(str(error) or type(error).__name__, ERROR)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # the reader left: nothing more can be said, and the interpreter must not try at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ERROR


def _tolerant_output() -> None:
    """A character that the terminal cannot show must not end a run."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _remedy(error: Exception, options: argparse.Namespace) -> str:
    """How builtins that are missing are turned on, where options say which there are."""
    chosen = getattr(options, "chosen_builtins", None)
    if not isinstance(error, UnknownNames) or not isinstance(chosen, (list, tuple)):
        return ""
    from toolnexus.tools.builtin.catalog import NAMES

    there = [str(name) for name in cast("Sequence[object]", chosen)]
    missing = [name for name in NAMES if name in error.names and name not in there]
    return f"\n(--builtins {','.join([*there, *missing])})" if missing else ""


def _fail(text: str, code: int) -> int:
    from toolnexus.cli.spoken import spoken

    print(f"toolnexus: {spoken(text)}", file=sys.stderr)
    return code
