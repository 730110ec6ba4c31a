"""The store that a text names: the path of a file, or the address of a server."""

from __future__ import annotations

from pathlib import Path

from toolnexus.errors import ConfigError
from toolnexus.stores.base import Store

_SERVERS = ("postgresql", "postgres", "redis", "rediss")


def is_address(text: str) -> bool:
    """Whether `text` names a server, and no file."""
    return "://" in text


def store_at(text: str | Path) -> Store:
    """A `SqliteStore` for a path, a `PostgresStore` or a `RedisStore` for an address.

    Opens nothing. Raises `ConfigError` for another kind of address, and what the stores raise.
    """
    if isinstance(text, Path) or not is_address(text):
        from toolnexus.stores.sqlite import SqliteStore

        return SqliteStore(text)
    scheme = text.partition("://")[0]
    if scheme not in _SERVERS:
        raise ConfigError(
            f"a store at {scheme[:20]!r}://…; give the path of a file, 'postgresql://…' or 'redis://…'"
        )
    if scheme.startswith("postgres"):
        from toolnexus.stores.postgres import PostgresStore

        return PostgresStore(text)
    from toolnexus.stores.redis import RedisStore

    return RedisStore(text)
