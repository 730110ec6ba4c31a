"""What a command of the model gets to see of our environment: not the secrets."""

from __future__ import annotations

import os
import re

from toolnexus.runtime.redact import Redactor
from toolnexus.runtime.secrets import secret_name, secret_value

MARK = "TOOLNEXUS_RUN"
"""The variable that tells which command a process descends from."""

_WORKING = re.compile(
    r"(?:https?|ftp|all)_proxy|(?:pip|uv)_(?:extra_)?index_url|uv_(?:default_)?index|uv_index_\w+"
    r"|npm_config_registry|yarn_npm_registry_server|goproxy",
    re.I,
)
"""Proxies and package indexes: without them commands of everyday work fail, so these may hold a password."""


def child_environment(secret: frozenset[str], redact: Redactor, mark: str) -> dict[str, str]:
    """Our environment without secrets, marked with `mark`.

    A secret is a variable of a name in `secret` or of one that looks like it, one whose value looks
    like it, such as a URL with a password (proxies and package indexes excepted), and one whose
    value holds something that `redact` knows: a key that a host or a document took from it. A mark
    of a command further out is kept, so that its processes are still found as its own.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if not (name in secret or _looks_secret(name, value) or redact(value) != value)
    }
    env[MARK] = ":".join([value for value in (env.get(MARK), mark) if value])
    return env


def _looks_secret(name: str, value: str) -> bool:
    return not _WORKING.fullmatch(name) and (secret_name(name) or secret_value(value))
