"""What a host hands to its builtins, as values of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from toolnexus.runtime.context import ContextKey

if TYPE_CHECKING:
    from pathlib import Path

READ_ROOTS: ContextKey[tuple[Path, ...]] = ContextKey("read_roots")
"""More folders that read, grep and glob may look into, such as skill folders."""

CLOSED_ROOTS: ContextKey[tuple[Path, ...]] = ContextKey("closed_roots")
"""Folders that may not be looked into although they lie in one of `READ_ROOTS`."""

SECRET_ENV: ContextKey[Callable[[], frozenset[str]]] = ContextKey("secret_env")
"""More variables that hold secrets, such as those that a configuration refers to."""
