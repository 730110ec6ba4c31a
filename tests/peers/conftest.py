"""The counterparts that the tests of this folder talk to; where they cannot be had, tests are skipped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.peers import install


def _or_skip(installed: Callable[[], Path]) -> Path:
    try:
        return installed()
    except install.Missing as reason:
        pytest.skip(f"NOT TESTED: {reason}")


@pytest.fixture(scope="session")
def node() -> dict[str, str]:
    """The environment in which the npm packages are programs."""
    programs = _or_skip(install.npm_packages)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "NODE_PATH": str(programs.parent)}


@pytest.fixture(scope="session")
def old_python() -> Path:
    """A Python that has a2a-sdk 0.3."""
    return _or_skip(install.old_python)
