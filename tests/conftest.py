"""What every test shares."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """asyncio is the runtime of the package."""
    return "asyncio"
