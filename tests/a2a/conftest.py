"""The agents that the tests of this folder talk to."""

from collections.abc import Generator

import pytest

from tests.a2a.remote_server import Seen, agents


@pytest.fixture(scope="module")
def served() -> Generator[tuple[str, Seen]]:
    with agents() as server:
        yield server


@pytest.fixture
def base(served: tuple[str, Seen]) -> str:
    """The address below which the agents are."""
    return served[0]


@pytest.fixture
def seen(served: tuple[str, Seen]) -> Seen:
    """What they see from now on."""
    served[1].clear()
    return served[1]
