"""Values of a document: variables filled in, paths made absolute, secrets kept out of sight."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolnexus.errors import ConfigError, UnsetVariable, VariableError
from toolnexus.runtime.redact import MASK, Redactor
from toolnexus.tools.mcp_values import Reader, Values

_VARIABLE = re.compile(r"(\$\{[^}]*\}?)")


class Secret(str):
    """A text whose repr does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(MASK)


class Filler:
    """Fills the values of one document in and notes what it meets.

    `folder` is what relative paths are relative to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.findings: list[str] = []
        """What is wrong with the document."""
        self.missing: dict[str, list[str]] = {}
        """By option: what the surroundings lack, variables and folders."""
        self.redact = Redactor()
        self._values = Values(folder, ())

    def text(self, text: str, key: str, option: str) -> str | None:
        """`text` with its variables filled in; None when one is not set, which is noted.

        What a variable holds is shown in no error, whatever it is called.
        """
        reader = self._values.reader("")
        parts = [self._part(reader, part, key, option) for part in _VARIABLE.split(text)]
        for secret in reader.secrets:
            self.redact.add(secret)
        known = [part for part in parts if part is not None]
        return "".join(known) if len(known) == len(parts) else None

    def _part(self, reader: Reader, part: str, key: str, option: str) -> str | None:
        try:
            value = reader.fill(part, key, private=True)
        except UnsetVariable as error:
            self.lacks(option, key, error.why)
            return None
        except VariableError as error:
            self.findings.append(f"{key}: {error.why}")
            return None
        if part.startswith("${") and value == part:
            wrong = f"{part[:40]!r} is no variable; write ${{NAME}} or ${{NAME:-default}}"
            self.findings.append(f"{key}: {wrong}")
            return None
        return value

    def secret(self, text: str, key: str, option: str) -> Secret | None:
        """Like `text`, for a value that nothing may show."""
        value = self.text(text, key, option)
        return None if value is None else Secret(value)

    def secrets(self, table: Mapping[str, str], key: str, option: str) -> dict[str, str]:
        """Every value filled in as a secret."""
        filled = {name: self.secret(text, f"{key}.{name}", option) for name, text in table.items()}
        return {name: value for name, value in filled.items() if value is not None}

    def url(self, text: str, key: str, option: str) -> str | None:
        """An address; a password in it is a secret."""
        url = self.text(text, key, option)
        try:
            password = urlsplit(url or "").password
        except ValueError:
            password = url
        if password:
            self.redact.add(password)
        return url

    def path(self, text: str, key: str, option: str) -> Path | None:
        """An absolute path; None when it is not known, which is noted."""
        filled = self.text(text, key, option)
        return None if filled is None else self.as_path(filled, key)

    def as_path(self, filled: str, key: str) -> Path | None:
        """Like `path`, of a text without variables."""
        if "\0" in filled or not filled.strip():
            self.findings.append(f"{key}: a path must not be empty")
            return None
        try:
            path = self.folder / Path(filled).expanduser()
            _check_possible(path)
        except (OSError, RuntimeError) as error:  # too long; ~name of somebody who does not exist
            reason = getattr(error, "strerror", None) or error
            self.findings.append(f"{key}: {filled[:40]!r} is no path: {reason}")
            return None
        return path

    def paths(self, given: str | Sequence[str], key: str, option: str) -> list[Path | None]:
        """Like `path`, of one or several."""
        if isinstance(given, str):
            return [self.path(given, key, option)]
        return [self.path(text, f"{key}[{i}]", option) for i, text in enumerate(given)]

    def attempt(self, key: str, check: Callable[..., object], *args: Any, **options: Any) -> None:
        """Note the `ConfigError` that `check` raises, without the secrets in it."""
        try:
            check(*args, **options)
        except (ConfigError, OSError) as error:
            text = self.redact(str(error)).removeprefix(f"{key}: ")
            self.findings.append(text if text.startswith(f"{key}=") else f"{key}: {text}")

    def lacks(self, option: str, key: str, text: str) -> None:
        """Note that what `option` needs is not there; it matters once the option is used."""
        self.missing.setdefault(option, []).append(f"{key}: {text}")

    def lacking(self, options: Iterable[str] | None = None) -> list[str]:
        """What is not there of what these options need; None: all of them."""
        names = self.missing if options is None else options
        return [line for name in names for line in self.missing.get(name, ())]


def _check_possible(path: Path) -> None:
    """Raises `OSError` for what can be the path of nothing."""
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        os.lstat(path)
