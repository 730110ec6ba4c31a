"""`AGENTS.md` and `CLAUDE.md`: what a project tells whoever works in it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from toolnexus.core.files import read_text, reason
from toolnexus.core.options import expect
from toolnexus.core.values import frozen
from toolnexus.errors import ConfigError

NAMES = ("AGENTS.md", "CLAUDE.md")
MOST_BYTES = 1 << 16

_INCLUDE = re.compile(r"^@\S+\s*$", re.MULTILINE)
_TAG = re.compile(r"<(?=\s*/?\s*project_instructions\b)", re.IGNORECASE)
_ABOUT = "Written by the project you work in. What the user says comes before it."


@frozen()
class Instructions:
    """What a file of instructions says."""

    path: Path
    text: str
    report: tuple[str, ...] = ()
    """What was not taken, a line each."""

    def block(self) -> str:
        """The text as it stands in a system prompt: nothing in it can end the block early."""
        text = _TAG.sub("&lt;", self.text)
        return f"<project_instructions file={self.path.name!r}>\n{_ABOUT}\n\n{text}\n</project_instructions>"


def with_instructions(prompt: str, instructions: Instructions | None) -> str:
    """A system prompt with the block of instructions below it."""
    if instructions is None:
        return prompt
    return "\n\n".join([text for text in (prompt, instructions.block()) if text])


def read_instructions(
    given: bool | str | os.PathLike[str], workdir: str | os.PathLike[str]
) -> Instructions | None:
    """What the file `given` says, or, for True, the nearest from `workdir` upward.

    The search ends at the root of the repository; outside of one only `workdir` itself is looked at,
    since what lies above may be anybody's. None when there is none, or nothing in it. Raises
    `ConfigError` for a file that cannot be read or has more than 64 KiB.
    """
    expect("instructions", given, (bool, str, os.PathLike), "give True or the path of a file")
    if given is False:
        return None
    others: list[str] = []
    if given is True:
        found = find_instructions(Path(workdir))
        if not found:
            return None
        path = found[0]
        others = [f"{other}: not taken: {path.name} beside it is" for other in found[1:]]
    else:
        path = Path(os.path.abspath(os.path.expanduser(given)))
    try:
        text = read_text(path, MOST_BYTES).strip()
    except OSError as error:
        raise ConfigError(f"instructions {str(path)!r} cannot be read: {reason(error)}") from error
    if not text:
        return None
    includes = [f"{path}: {line.strip()[:80]}: no other file is included" for line in _INCLUDE.findall(text)]
    return Instructions(path, text, (*others, *includes))


def find_instructions(folder: Path) -> list[Path]:
    """The files of the nearest folder that has any, the one that counts first."""
    for place in _up_to_root(folder):
        found = [path for name in NAMES if (path := place / name).is_file()]
        if found:
            return found
    return []


def _up_to_root(folder: Path) -> list[Path]:
    """`folder` and those above it, up to the one that holds the repository."""
    above = [folder, *folder.parents]
    root = next((n for n, place in enumerate(above) if (place / ".git").exists()), 0)
    return above[: root + 1]
