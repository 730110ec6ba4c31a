"""The servers that the stores of this folder are tried on, one of each in a worker."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count

import pytest

from tests.stores import servers
from tests.stores.places import Place, PostgresPlace, RedisPlace

_numbers = count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[tuple[servers.Server, str]]:
    programs = servers.postgres_programs()
    if programs is None:
        pytest.skip("the programs of PostgreSQL are not installed")
    with servers.postgres(programs) as running:
        yield running


@pytest.fixture(scope="session")
def redis_server() -> Iterator[tuple[servers.Server, str]]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("the program redis-server is not installed")
    with servers.redis(program) as running:
        yield running


@pytest.fixture
def postgres(postgres_server: tuple[servers.Server, str]) -> PostgresPlace:
    return PostgresPlace(*postgres_server, f"t{next(_numbers)}")


@pytest.fixture
def redis(redis_server: tuple[servers.Server, str]) -> RedisPlace:
    return RedisPlace(*redis_server, f"t{next(_numbers)}")


@pytest.fixture(params=["postgres", "redis"])
def place(request: pytest.FixtureRequest) -> Place:
    """An empty place on each of the servers."""
    return request.getfixturevalue(request.param)
