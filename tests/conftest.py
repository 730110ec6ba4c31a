"""What every test shares."""

import gc
import os
import sys
from collections.abc import Generator
from typing import Any

import pytest

from tests import workers
from tests.warm import Warm

# Many tests start programs of their own: those must not compile every import again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No test asks a public host for its certificate: loading everybody's takes every client 30 ms.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = os.path.dirname(__file__)
# What is loaded stays: the garbage collector need not look at it, neither now nor in every test.
gc.disable()
gc.set_threshold(10_000, 20, 50)


def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """The workers are forked where that is possible."""
    if hasattr(os, "fork"):
        python = workers.forked(config, len(specs))
        for spec in specs:
            spec.python = python


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def anyio_backend() -> str:
    """asyncio is the runtime of the package."""
    return "asyncio"


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Warm]:
    """What starts Python programs quickly; one for all workers."""
    folder = tmp_path_factory.getbasetemp()
    with Warm(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as warm:
        yield warm
