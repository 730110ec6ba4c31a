"""Names that reach a model, and names that were nearly right."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_NAME = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def sanitize(name: str) -> str:
    """`name` with every character outside `[A-Za-z0-9_-]` replaced by `_`."""
    return _UNSAFE.sub("_", name)


def _hashed(name: str, identity: str) -> str:
    import hashlib

    digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}_{digest}"


def model_names(candidates: Iterable[tuple[str, str]]) -> list[str]:
    """A name for each `(wanted, identity)`: safe, at most 64 characters, unique and stable.

    `identity` is what tells two equal wishes apart (server and original tool name). A name that is
    too long, or that several identities sanitise to, gets a short hash of its identity, so the
    outcome does not depend on the order.
    """
    pairs = [(sanitize(wanted), identity) for wanted, identity in candidates]
    owners: dict[str, set[str]] = {}
    for name, identity in pairs:
        owners.setdefault(name, set()).add(identity)
    return [
        _hashed(name, identity) if len(name) > MAX_NAME or len(owners[name]) > 1 else name
        for name, identity in pairs
    ]


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """At most three names that `name` may have meant, nearest first."""
    import difflib

    return difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A text such as `; did you mean 'read'?`, or `""` when nothing is near."""
    close = nearest(name, known)
    return f"; did you mean {' or '.join(repr(n) for n in close)}?" if close else ""
