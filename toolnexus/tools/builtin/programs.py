"""Programs that we start for ourselves, outside of every sandbox.

A command of a model may write below the root folder, and PATH may lead there: what lies in the root
is not started, whatever its name, and what is started gets nothing of our environment but what a
program needs to start.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

_real = os.path.realpath
_LIBRARIES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_NEEDED = ("SYSTEMROOT",)
"""Without it no program of Windows starts."""


def find_program(name: str, root: str) -> str | None:
    """The program in PATH, but for places where a command could have put another one."""
    if root == "/":  # no place is out of reach, so there is none to prefer
        return shutil.which(name)
    found = shutil.which(name, path=os.pathsep.join(_outside(os.get_exec_path(), root)))
    return None if found is None or lies_in(_real(found), root) else found


def bare_environment(root: str) -> dict[str, str]:
    """What a program of ours needs of the environment: where its libraries are, as far as not in `root`."""
    env = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    for name in _LIBRARIES:
        folders = _outside(os.environ.get(name, "").split(os.pathsep), root)
        if folders:
            env[name] = os.pathsep.join(folders)
    return env


def lies_in(path: str, folder: str | None) -> bool:
    """Whether a path is that of a folder or of something below it."""
    return folder is not None and Path(path).is_relative_to(folder)


def _outside(folders: Iterable[str], root: str) -> list[str]:
    return [one for one in folders if os.path.isabs(one) and not lies_in(_real(one), root)]
