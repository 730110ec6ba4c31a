"""One filter vocabulary for every source: servers, skills, builtins, functions, agents.

A mapping `{name: bool}`: any `true` makes it an allowlist, only `false` a drop-list, empty means
all. A list is an allowlist and `[]` means none. Names may be globs. A filter only ever narrows.

What is written `false` is denied; for an agent that holds in everything below it, too. An
allowlist shapes one view only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, cast

from toolnexus.core.names import did_you_mean, listed
from toolnexus.core.values import frozen
from toolnexus.errors import ConfigError, UnknownNames

logger = logging.getLogger("toolnexus.tools")

_MOST_UNKNOWN = 20

FilterSpec = bool | Sequence[str] | Mapping[str, bool] | None


def is_glob(pattern: str) -> bool:
    return any(c in pattern for c in "*?[")


class IfThere(str):
    """A name that is denied in case it is there: nothing is said when it is not."""

    __slots__ = ()


class Expected(IfThere):
    """A name that is denied and should be there: a warning when it is nowhere."""

    __slots__ = ()


@frozen()
class NameFilter:
    """Which names pass. `allow` None means all but the denied."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    off: bool = False
    """Whether it was written `False`: nothing passes, and all of it is denied."""

    @classmethod
    def of(cls, spec: Any, where: str) -> NameFilter:
        """The filter that `spec` writes down. Raises `ConfigError` for any other shape."""
        if spec is None or spec is True:
            return cls()
        if spec is False:
            return cls(allow=(), off=True)
        if isinstance(spec, Mapping):
            flags = cast("Mapping[Any, Any]", spec)
            for name, flag in flags.items():
                if not isinstance(name, str) or not isinstance(flag, bool):
                    raise ConfigError(f"{where}: {name!r}: {flag!r}; a filter maps names to true or false")
            allow = tuple(n for n, flag in flags.items() if flag)
            deny = tuple(n for n, flag in flags.items() if not flag)
            return cls(allow=allow or None, deny=deny)
        if isinstance(spec, Sequence) and not isinstance(spec, str):
            names = tuple(cast("Sequence[Any]", spec))
            for name in names:
                if not isinstance(name, str):
                    raise ConfigError(f"{where}: {name!r} is no name; a list filter holds names and globs")
            return cls(allow=cast("tuple[str, ...]", names))
        raise ConfigError(
            f"{where}: {spec!r}; a filter is a list of names, a mapping of names to bools, or a bool"
        )

    def admits(self, *aliases: str | None) -> bool:
        """Whether something known by any of `aliases` passes."""
        return not self.denies(*aliases) and (self.allow is None or _hit(self.allow, aliases))

    def denies(self, *aliases: str | None) -> bool:
        """Whether it is denied by name (a `false`)."""
        return bool(self.deny) and _hit(self.deny, aliases)

    def check(
        self,
        known: Iterable[str],
        where: str,
        *,
        awaited: Sequence[str] = (),
        there: str = "available",
    ) -> None:
        """Hold every name of the filter against the names that exist.

        Raises `UnknownNames` with all that do not, the nearest, and what is `there`. A name that may
        yet come, which matches a pattern in `awaited`, and a glob without a match are warnings only.
        """
        names = list(known)
        coming, unknown = tuple(awaited), list[str]()
        for pattern in (*(self.allow or ()), *self.deny):
            if isinstance(pattern, IfThere) or _hit((pattern,), names):
                continue
            if is_glob(pattern):
                logger.warning("%s: pattern %r matches nothing", where, pattern)
                continue
            if not _hit(coming, (pattern,)):
                unknown.append(pattern)
                continue
            near = did_you_mean(pattern, names)
            logger.warning("%s: there is no %r%s (not every source is there)", where, pattern, near)
        if unknown:
            said = ", ".join(map(repr, unknown[:_MOST_UNKNOWN]))
            more = f" and {len(unknown) - _MOST_UNKNOWN} more" if len(unknown) > _MOST_UNKNOWN else ""
            near = "".join(_near(name, names, len(unknown)) for name in unknown[:_MOST_UNKNOWN])
            text = f"{where}: there is no {said}{more}; {there}: {listed(names)}{near}"
            raise UnknownNames(text, tuple(unknown))


def _near(name: str, names: Sequence[str], count: int) -> str:
    near = did_you_mean(name, names)
    return f"; {name!r}: {near[2:]}" if near and count > 1 else near


def _hit(patterns: tuple[str, ...], names: Iterable[str | None]) -> bool:
    """Whether one of `names` is meant; a name that looks like a glob means itself as well."""
    exact, globs = _split(patterns)
    return any(
        name in exact or any(fnmatchcase(name, glob) for glob in globs) for name in names if name is not None
    )


@lru_cache(maxsize=512)
def _split(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    return frozenset(patterns), tuple(pattern for pattern in patterns if is_glob(pattern))
