"""`toolnexus trust`: folders whose servers and skills may be used, and the question about one."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from toolnexus.agents.project import Project, load_project
from toolnexus.cli.exits import DONE, UsageError
from toolnexus.cli.notes import tell_notes
from toolnexus.cli.view.words import printable
from toolnexus.errors import ConfigError


def command(options: Namespace) -> int:
    """Trust a folder, or no longer. Gives the exit code."""
    if not os.path.isdir(options.folder):
        raise UsageError(f"{options.folder!r} is no folder")
    mark = _mark(options.folder)
    marks = [line for line in _marks() if line != mark]
    known = mark in _marks()
    _keep(marks if options.forget else [*marks, mark])
    said = ("no longer trusted" if known else "was not trusted") if options.forget else "trusted"
    print(f"{said}: {os.path.realpath(options.folder)}")
    return DONE


def project_of(options: Namespace) -> Project:
    """The project that `--project` names; what starts programs comes along once the folder is trusted.

    At a terminal the person is asked, and what they say yes to is kept. Raises `UsageError` elsewhere.
    """
    folder, models = options.project, dict(options.agent_model)
    trusted = os.path.isdir(folder) and _mark(folder) in _marks()
    project = load_project(folder, trust=trusted, models=models)
    if project.withheld and _says_yes(project):
        _keep([*_marks(), _mark(folder)])
        project = load_project(folder, trust=True, models=models)
    tell_notes(project.report)
    return project


def _says_yes(project: Project) -> bool:
    listed = [f"  {path.relative_to(project.folder)}" for path in project.withheld]
    about = "\n".join([f"{project.folder} has files that may start programs:", *listed])
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"{about}\nLook at them. If you trust whoever wrote them: toolnexus trust {project.folder}"
        )
    print(printable(f"{about}\nDo you trust whoever wrote them? [y/N] ", keep="\n"), end="", file=sys.stderr)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _mark(folder: str) -> str:
    """What is kept of a folder: nobody who reads the file learns which folders there are."""
    return sha256(os.fsencode(os.path.realpath(folder))).hexdigest()


def _file() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".config") / "toolnexus" / "trusted"


def _marks() -> list[str]:
    try:
        return _file().read_text("ascii").split()
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        raise ConfigError(f"{str(_file())!r} cannot be read: {error}") from error


def _keep(marks: Iterable[str]) -> None:
    """Write the file whole, so that one who reads it meanwhile sees the old or the new one."""
    file = _file()
    new = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        new.write_text("".join([f"{mark}\n" for mark in dict.fromkeys(marks)]), "ascii")
        os.replace(new, file)
    except OSError as error:
        raise ConfigError(f"{str(file)!r} cannot be written: {error}") from error
