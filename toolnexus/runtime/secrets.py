"""What looks like a secret: one rule for environment variables, headers, query values and their kin."""

from __future__ import annotations

import re

_WORDS = frozenset(
    "key keys token tokens pass passwd pwd sshpass pat jwt auth bearer creds dsn connstr".split()
)
_IN_WORDS = re.compile(
    r"secret|passw|passphrase|credential|authoriz|cookie|(?:api|access|private|account)key"
    r"|(?:auth|access|bearer|refresh)token"
)
_ACROSS_WORDS = re.compile(r"(?:^|_)(?:api_key|conn(?:ection)?_?str(?:ing)?s?)(?:_|$)")
_COUNTED = frozenset(("max", "min", "limit", "num", "count", "budget"))
"""Beside `tokens` or `keys` they say that it is a number."""
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NO_WORD = re.compile(r"[^A-Za-z0-9]+")
_HARMLESS = re.compile(r"PWD|OLDPWD|SSH_AUTH_SOCK|GIT_CONFIG_KEY_\d+")
"""Variables that are named like a secret and hold none; commands do not work without them."""

_PASSWORD_IN_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#:@]*:[^\s/?#]+@", re.I)
_PASSWORD_IN_LIST = re.compile(r"(?:^|[;\s])(?:password|pwd|accountkey|sharedaccesskey)\s*=\s*[^;\s]", re.I)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY")


def secret_name(name: str) -> bool:
    """Whether something of this name is a secret: `OPENAI_API_KEY_2`, `authToken`; not `MAX_TOKENS`."""
    if _HARMLESS.fullmatch(name):
        return False
    parts = [
        part.rstrip("0123456789") for part in _NO_WORD.sub("_", _CAMEL.sub("_", name)).lower().split("_")
    ]
    words = set(parts)
    found = words & _WORDS
    if found <= {"tokens", "keys"} and words & _COUNTED:
        found = set[str]()
    return bool(
        found or any(map(_IN_WORDS.search, parts)) or _ACROSS_WORDS.search("_".join(filter(None, parts)))
    )


def secret_value(value: str) -> bool:
    """Whether a value holds a secret, whatever its name.

    That is a URL or a connection string with a password, or a private key.
    """
    return bool(
        _PASSWORD_IN_URL.search(value) or _PASSWORD_IN_LIST.search(value) or _PRIVATE_KEY.search(value)
    )
