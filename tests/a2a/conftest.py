"""The agents that the tests of this folder talk to."""

from collections.abc import Generator

import pytest

from tests.a2a.seen import Seen


@pytest.fixture(scope="module")
def served() -> Generator[tuple[str, Seen]]:
    from tests.a2a.remote_server import agents  # the SDK's server and a database: a second, for these alone

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
