"""The database that tasks are kept in. Connects to nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolnexus.core.options import install, wrong
from toolnexus.errors import ConfigError


def make_engine(given: Any) -> Any:
    """SQLAlchemy's engine for the path of an SQLite file, or for a URL.

    Raises `ConfigError` for what is neither; its cause is the `ImportError` when a package is missing.
    """
    is_url = "://" in str(given)
    url = str(given) if is_url else _of_file(given)
    try:
        from sqlalchemy.exc import SQLAlchemyError
        from sqlalchemy.ext.asyncio import create_async_engine
    except ImportError as missing:
        raise _missing(missing, install("serve-sqlite")) from missing
    try:
        return create_async_engine(url)
    except ImportError as missing:
        raise _missing(missing, "install it" if is_url else install("serve-sqlite")) from missing
    except (SQLAlchemyError, ValueError) as error:
        name = url.partition("://")[0]  # the rest may hold a password
        raise ConfigError(
            f"a2a.tasks: {name!r} is no database that can be used: {type(error).__name__}; give the path of "
            "a file, or a URL with a driver for asyncio, such as postgresql+psycopg://…"
        ) from None


def _missing(missing: ImportError, remedy: str) -> ConfigError:
    return ConfigError(f"a2a.tasks: a database needs {missing.name!r}, which is not installed: {remedy}")


def _of_file(given: Any) -> str:
    try:
        path = Path(given).expanduser().absolute()
        is_folder, has_folder = path.is_dir(), path.parent.is_dir()
    except (OSError, RuntimeError, TypeError) as error:  # too long, forbidden, nobody's home, of bytes
        why = getattr(error, "strerror", None) or error
        raise wrong("a2a.tasks", given, f"{why}; give the path of a file") from None
    if is_folder or not has_folder:
        what = "a folder" if is_folder else "in a folder that does not exist"
        raise ConfigError(f"a2a.tasks: {str(path)!r} is {what}; give the path of a file")
    return f"sqlite+aiosqlite:///{path}"
