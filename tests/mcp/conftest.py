"""What the tests of MCP share: servers of the official SDK, forked from where it is loaded."""

from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import pytest

from tests.mcp.helpers import SERVERS, official_server, server
from tests.warm import Warm
from toolnexus.tools.mcp_config import ServerConfig

OVER_STDIO = """
import os, runpy, signal, socket, sys
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[1])
door.listen()
print("open", flush=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    caller = door.accept()[0]
    if os.fork() == 0:
        break
    caller.close()
_, streams, *_ = socket.recv_fds(caller, 1, 3)
for number, stream in enumerate(streams):
    os.dup2(stream, number)
    os.close(stream)
sys.argv = [sys.argv[2]]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A server for each caller; see `tests/servers/forked.py`."""


@pytest.fixture(scope="session")
def official(warm: Warm) -> Generator[str]:
    """The URL of a server of the official SDK over HTTP, for tests that leave it as it is."""
    with official_server(warm) as url:
        yield url


@pytest.fixture(scope="session")
def official_stdio(
    warm: Warm, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Callable[..., ServerConfig]]:
    """Makes configurations of servers of the official SDK over stdio; takes keys as in a file."""
    door: Path = tmp_path_factory.mktemp("official") / "door"
    with warm.start(OVER_STDIO, str(door), str(SERVERS / "sdk_mcp.py")) as started:
        assert started.stdout.readline() == "open\n"
        yield partial(server, str(door), script=SERVERS / "forked.py")
