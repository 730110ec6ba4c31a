"""What a command of the model gets to see of our environment: not the secrets."""

from __future__ import annotations

import os
from collections.abc import Callable
from fnmatch import fnmatchcase

from toolnexus.runtime.context import ContextKey
from toolnexus.runtime.redact import Redactor

SECRET_ENV: ContextKey[Callable[[], frozenset[str]]] = ContextKey("secret_env")
"""Host value: more variables that hold secrets, such as those that a configuration refers to."""

MARK = "TOOLNEXUS_RUN"
"""The variable that tells which command a process descends from."""

_SECRET = (
    *("KEY", "*_KEY", "*_KEYS", "*APIKEY*", "TOKEN", "*_TOKEN", "*_TOKENS", "*_PAT", "*_JWT", "*_AUTH"),
    *(
        "*SECRET*",
        "*PASSWORD*",
        "*PASSPHRASE*",
        "*_PASSWD",
        "*_PASS",
        "*_PWD",
        "*_CREDENTIAL",
        "*_CREDENTIALS",
    ),
)


def child_environment(secret: frozenset[str], redact: Redactor, mark: str) -> dict[str, str]:
    """Our environment without secrets, marked with `mark`.

    A secret is a variable of a name in `secret` or of one that looks like it, and one whose value
    holds something that `redact` knows: a key that a host or a document took from it. A mark of a
    command further out is kept, so that its processes are still found as its own.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if not (name in secret or _looks_secret(name) or redact(value) != value)
    }
    env[MARK] = ":".join([value for value in (env.get(MARK), mark) if value])
    return env


def _looks_secret(name: str) -> bool:
    return any(fnmatchcase(name.upper(), pattern) for pattern in _SECRET)
