"""Servers of this folder live as long as their module, on one event loop."""

import pytest

from tests.stores.conftest import postgres_server

__all__ = ["postgres_server"]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"
