"""`toolnexus graph draw`: a graph document as text for Mermaid or Graphviz, or as a picture."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

from toolnexus.cli.exits import DONE, UsageError
from toolnexus.cli.graphs import read
from toolnexus.core.files import reason
from toolnexus.core.options import install
from toolnexus.graph import to_dot, to_mermaid

PROGRAMS = ("graphviz-pure", "dot")
PICTURES = ("svg", "png")
SECONDS = 60


def command(options: Namespace) -> int:
    """Draw to standard output or into the file. Gives the exit code. Raises `UsageError`."""
    definition = read(options.file)
    if options.output is None:
        print(to_mermaid(definition), end="")
        return DONE
    form = Path(options.output).suffix.removeprefix(".").lower()
    if form == "mmd":
        drawn = to_mermaid(definition).encode()
    elif form == "dot":
        drawn = to_dot(definition).encode()
    elif form in PICTURES:
        drawn = picture(to_dot(definition), form)
    else:
        raise UsageError(f"{options.output!r} must end in .mmd, .dot, .svg or .png")
    try:
        Path(options.output).write_bytes(drawn)
    except OSError as error:
        raise UsageError(f"{options.output!r} cannot be written: {reason(error)}") from error
    return DONE


def picture(dot: str, form: str) -> bytes:
    """What Graphviz makes of it, as `svg` or `png`. Raises `UsageError` where there is none."""
    program = _graphviz()
    if program is None:
        raise UsageError(f"a picture needs Graphviz, which is not here: {install('graph-draw')}")
    detail = ["-Gdpi=144"] if form == "png" else []
    try:
        done = subprocess.run(
            [program, f"-T{form}", *detail],
            input=dot.encode(),
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{program} took longer than {SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise UsageError(f"{program} failed: {said or error}") from error
    return done.stdout


def _graphviz() -> str | None:
    """The Graphviz that is installed with this interpreter, or the one in PATH."""
    beside = os.path.dirname(sys.executable)
    return next(filter(None, (shutil.which(p, path=w) for p in PROGRAMS for w in (beside, None))), None)
