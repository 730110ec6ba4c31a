"""Names that reach a model, and names that were nearly right."""

from __future__ import annotations

from collections.abc import Iterable

MAX_NAME = 64
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def is_name(text: str) -> bool:
    """Whether a model can call something so: 1 to 64 of `[A-Za-z0-9_-]`."""
    return 0 < len(text) <= MAX_NAME and _SAFE.issuperset(text)


def sanitize(name: str) -> str:
    """`name` with every character outside `[A-Za-z0-9_-]` replaced by `_`."""
    if _SAFE.issuperset(name):
        return name
    return "".join([character if character in _SAFE else "_" for character in name])


def hashed(name: str, identity: str) -> str:
    """`name` in at most 64 characters that end in a hash of `identity`."""
    import hashlib

    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}_{digest}"


def model_names(candidates: Iterable[tuple[str, str]]) -> list[str]:
    """A name for each `(wanted, identity)`: safe, at most 64 characters, unique and stable.

    `identity` is what tells two equal wishes apart (server and original tool name). A name that is
    too long, or that several identities sanitise to, gets a short hash of its identity, so the
    outcome does not depend on the order.
    """
    pairs = [(sanitize(wanted) or "_", identity) for wanted, identity in candidates]
    names = [name if len(name) <= MAX_NAME else hashed(name, identity) for name, identity in pairs]
    if len(set(names)) == len(names):
        return names
    salt = ""
    while clashing := _claimed_twice(names, pairs):
        names = [
            hashed(pair[0], pair[1] + salt) if name in clashing else name
            for name, pair in zip(names, pairs, strict=True)
        ]
        salt += "+"  # somebody is called like the hash of another
    return names


def _claimed_twice(names: Iterable[str], pairs: Iterable[tuple[str, str]]) -> set[str]:
    owners: dict[str, set[str]] = {}
    for name, (_, identity) in zip(names, pairs, strict=True):
        owners.setdefault(name, set()).add(identity)
    return {name for name, identities in owners.items() if len(identities) > 1}


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """At most three names that `name` may have meant, nearest first."""
    import difflib

    return difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A text such as `; did you mean 'read'?`, or `""` when nothing is near."""
    close = nearest(name, known)
    return f"; did you mean {' or '.join(repr(n) for n in close)}?" if close else ""


def listed(names: Iterable[str], most: int = 40) -> str:
    """`names`, sorted, for an error text; of very many only the first, and how many there are."""
    every = sorted(names)
    if len(every) <= most:
        return str(every)
    return f"[{', '.join(map(repr, every[:most]))}, … {len(every) - most} more]"
