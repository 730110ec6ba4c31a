"""What the tests of MCP share."""

from collections.abc import Generator

import pytest

from tests.mcp.helpers import SDK, http_server


@pytest.fixture(scope="module")
def official() -> Generator[str]:
    """The URL of a server of the official SDK over HTTP, for tests that leave it as it is."""
    with http_server(script=SDK) as url:
        yield url
