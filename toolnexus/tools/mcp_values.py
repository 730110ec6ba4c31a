"""Values in MCP configurations: variables filled in, secrets noted."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from toolnexus.core.files import read_text, reason
from toolnexus.errors import ConfigError, UnsetVariable, VariableError
from toolnexus.protocols.mcp.process import SAFE_NAMES
from toolnexus.runtime.secrets import secret_name, secret_value

_VARIABLE = re.compile(r"\$\{(?:(env|input):)?([A-Za-z_][A-Za-z0-9_.-]*|/)(?::-([^}]*))?\}")
_OF_AN_EDITOR = re.compile(r"\$\{(command|config|extension\w*|file\w*|workspaceFolder\w*):[^}]*\}")
"""Variables that only the editor itself can fill in."""
_SESSION = re.compile(r"(?:(?:^|[_-])(?i:session)|(?<=[a-z])Session)(?:$|[_-]|(?=[A-Z]))")
"""In a header it is a secret; in the environment it names a desktop."""
_QUOTED = re.compile(r"""(["'])(.*?)\1\s*(?:#.*)?$""")
_MOST_ENV = 1 << 20
"""Bytes of an env file."""
_HARMLESS = frozenset(SAFE_NAMES) | {"PWD"}


class Values:
    """Fills `${…}` in. `inputs` are the questions of a VS Code file: the environment answers them."""

    def __init__(self, folder: Path | None, inputs: Sequence[Any]) -> None:
        """`folder` is the one that the file belongs to, if it belongs to one."""
        self.workspace = workspace = Path.cwd() if folder is None else folder
        self._folder = folder
        self._places = {
            "workspaceFolder": str(workspace),
            "workspaceFolderBasename": workspace.name,
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
        }
        self._defaults: dict[str, str] = {}
        self._passwords: set[str] = set()
        for item in inputs:
            if isinstance(item, Mapping):
                question = cast("Mapping[str, Any]", item)
                id = str(question.get("id"))
                if isinstance(default := question.get("default"), str):
                    self._defaults[id] = default
                if question.get("password") is True:
                    self._passwords.add(id)

    def reader(self, place: str) -> Reader:
        """One that collects the secrets of one server. `place` is how errors call the server."""
        return Reader(self, place)

    def find(self, kind: str | None, name: str) -> tuple[str, str | None]:
        """The environment variable behind a name, and the value that it has without one."""
        if kind == "input":
            return re.sub(r"[^A-Za-z0-9]", "_", name).upper(), self._defaults.get(name)
        return name, self._places.get(name) if kind is None else None

    def is_password(self, kind: str | None, name: str) -> bool:
        """Whether the file says that this answer must not be shown."""
        return kind == "input" and name in self._passwords

    def folder(self, cwd: str | None) -> str | None:
        """Where a server runs: its `cwd`, seen from the folder of the file, or that folder."""
        if cwd is None:
            return None if self._folder is None else str(self._folder)
        return str(self.workspace / Path(cwd).expanduser())


class Reader:
    """Fills in the values of one server and notes in `secrets` what must not be shown."""

    def __init__(self, values: Values, place: str) -> None:
        self._values = values
        self._place = place
        self.secrets: list[str] = []
        self.names: list[str] = []
        """The environment variables that secrets came from."""

    def fill(self, text: str, key: str, *, private: bool = False) -> str:
        """`text` with its variables filled in. Raises `VariableError`, `UnsetVariable` for one
        that is not set.

        What a variable holds is a secret when the whole text is `private`, or when the name of the
        variable or a password in its value says so.
        """

        def value_of(match: re.Match[str]) -> str:
            kind, name, default = match.groups()
            variable, builtin = self._values.find(kind, name)
            plain = builtin if default is None else default
            value: str | None = os.environ.get(variable) or plain
            if value is None and variable not in os.environ:
                raise self._missing(key, variable, name if kind == "input" else None)
            if value is None or value == plain or variable in _HARMLESS:
                return value or ""
            secret = private or self._values.is_password(kind, name)
            if secret or _sensitive(variable) or secret_value(value):
                self.note(value)
                self.names.append(variable)
            return value

        if foreign := _OF_AN_EDITOR.search(text):
            raise VariableError(
                self._place,
                key,
                f"uses ${{{foreign[1]}:…}}, which only an editor fills in; write what it stands for, or"
                " ${NAME} for an environment variable",
            )
        if any("${" in (match[3] or "") for match in _VARIABLE.finditer(text)):
            raise VariableError(self._place, key, "has a variable inside of a default; write a plain one")
        return _VARIABLE.sub(value_of, text)

    def _missing(self, key: str, variable: str, input: str | None) -> UnsetVariable:
        asked = "" if input is None else f" as the answer to input {input!r}"
        return UnsetVariable(
            self._place,
            key,
            f"needs the environment variable {variable!r}{asked}, which is not set; set it, or write"
            f" ${{{variable}:-default}}",
        )

    def fill_table(self, table: Mapping[str, str], key: str) -> dict[str, str]:
        """Every value filled in. What comes from variables is secret, and so is what stands under a
        name like `API_KEY` or `Authorization`."""
        out: dict[str, str] = {}
        for name, text in table.items():
            out[name] = value = self.fill(text, f"{key}.{name}", private=True)
            if _sensitive(name):
                self.note(value)
        return out

    def fill_url(self, text: str) -> str:
        """An address filled in; a password and query values like `api_key=` are secrets."""
        url = self.fill(text, "url")
        try:
            parts = urlsplit(url)
        except ValueError:  # its text may show a password
            raise ConfigError(f"{self._place}: 'url' is no valid address; look at its host") from None
        if parts.password:
            login = f"{unquote(parts.username or '')}:{unquote(parts.password)}"
            for secret in (parts.password, unquote(parts.password), b64encode(login.encode()).decode()):
                self.note(secret)
        for name, value in parse_qsl(parts.query):
            if _sensitive(name):
                self.note(value)
        return url

    def note(self, secret: str) -> None:
        """Keep `secret` out of all texts, also without a scheme such as `Bearer` before it.

        A plain number is left alone: masking it would spoil ordinary texts.
        """
        for part in (secret, *secret.split(" ")[1:]):
            if not part.replace(".", "").isdigit():
                self.secrets.append(part)


def _sensitive(name: str) -> bool:
    return secret_name(name) or _SESSION.search(name) is not None


def read_env_file(path: Path, place: str) -> dict[str, str]:
    """The `NAME=value` lines of a file. Raises `ConfigError` when it cannot be read."""
    try:
        text = read_text(path, _MOST_ENV)
    except OSError as error:
        raise ConfigError(f"{place}: the envFile {str(path)!r} cannot be read: {reason(error)}") from error
    out: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            out[name.strip()] = _unquoted(value.strip())
    return out


def _unquoted(value: str) -> str:
    """A value without its quotes, or without the comment behind it."""
    if quoted := _QUOTED.match(value):
        return quoted[2]
    return re.split(r"\s#", value, maxsplit=1)[0].rstrip()
