"""What the demo works on: a goal, a small program with one planted bug, a file server, a script."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from toolnexus.cli.demo.script import REPORT as REPORT
from toolnexus.cli.demo.script import scripted_model as scripted_model

GOAL = (
    "Customers say that this program charges some orders wrongly, always at a limit. Find the bug: file, "
    "line, and how the line should be. Delegate it in one turn: explore searches for the place, review "
    f"checks all modules by its skill and writes {REPORT}. Then tell me in a few lines what both found."
)
FILES_SERVER = str(Path(__file__).with_name("server.py"))
"""The program of the MCP server; it takes a folder."""

_PROJECT = Path(__file__).with_name("project")


def new_folder() -> Path:
    """A temporary folder that holds the program with the bug, and the skill. The caller keeps it."""
    folder = Path(tempfile.mkdtemp(prefix="toolnexus-demo-")).resolve()
    for source in sorted(_PROJECT.rglob("*")):
        # sources lie in the package as `.py.txt`, so that nobody takes them for code of ours
        target = folder / source.relative_to(_PROJECT).as_posix().removesuffix(".txt")
        if source.is_dir():
            target.mkdir()
        else:
            shutil.copyfile(source, target)
    return folder
