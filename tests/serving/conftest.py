"""Servers of this folder live as long as their module, on one event loop."""

import pytest


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"
