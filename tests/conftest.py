"""What every test shares."""

import gc
import os
import sys
from collections.abc import Generator
from contextlib import suppress
from importlib import import_module

import pytest

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


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let every worker start elsewhere with loading the tests: in a fresh clone each compiles a part of them,
    and reads what the others have compiled, where all of them would compile everything."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker or [os.path.basename(arg) for arg in session.config.args] != ["tests"]:
        return
    root = session.config.rootpath
    tests = sorted(path.relative_to(root).with_suffix("") for path in root.glob("tests/**/test_*.py"))
    first = len(tests) * int(worker.removeprefix("gw")) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for path in tests[first:] + tests[:first]:
        with suppress(Exception, pytest.skip.Exception):  # collecting tells
            import_module(".".join(path.parts))


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
