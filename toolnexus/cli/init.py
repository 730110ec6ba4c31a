"""`toolnexus init`: a config document to start from."""

from __future__ import annotations

import shlex
from argparse import Namespace
from pathlib import Path

from toolnexus.cli.exits import DONE, UsageError
from toolnexus.config.template import template


def command(options: Namespace) -> int:
    """Write the commented document. Gives the exit code."""
    place = Path(options.file)
    if place.suffix != ".toml":
        raise UsageError(f"{options.file!r} must end in .toml: that is what the document is written in")
    try:
        with place.open("x", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError:
        raise UsageError(
            f"{options.file!r} is there already, and is left as it is; name another file"
        ) from None
    except OSError as error:
        raise UsageError(f"{options.file!r} cannot be written: {error.strerror}") from error
    name = shlex.quote(options.file)
    print(f"wrote {options.file}\n  toolnexus config check {name}\n  toolnexus chat --config {name}")
    return DONE
