"""The counterparts, installed once into the user's cache.

What cannot be installed (no Node, no way to the packages) is no failure of ours: `Missing` says why.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 120
"""For one installation. It takes half a minute where packages come quickly."""


class Missing(Exception):
    """A counterpart cannot be had here."""


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolnexus" / "peers"


def npm_packages() -> Path:
    """The folder with the programs of package.json, a fitting Node among them."""
    if shutil.which("npm") is None:
        raise Missing("npm is not installed")

    def install(folder: Path) -> None:
        shutil.copy(HERE / "package.json", folder)
        quiet = ("--no-audit", "--no-fund", "--no-package-lock", "--fetch-retries=1")
        _run("npm", "install", *quiet, cwd=folder)

    return _installed("npm", HERE / "package.json", install) / "node_modules" / ".bin"


def old_python() -> Path:
    """A Python that has the a2a-sdk of protocol 0.3."""

    def install(folder: Path) -> None:
        _run(sys.executable, "-m", "venv", str(folder), cwd=folder)
        pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check")
        _run(*pip, "--retries=1", "-r", str(HERE / "requirements.txt"), cwd=folder)

    return _installed("python", HERE / "requirements.txt", install) / "bin" / "python"


def _installed(kind: str, pinned: Path, install: Callable[[Path], None]) -> Path:
    """The folder of what `pinned` says; another file is another folder."""
    name = f"{kind}-{sys.version_info.minor}-{hashlib.sha256(pinned.read_bytes()).hexdigest()[:12]}"
    folder, done = cache() / name, cache() / name / "installed"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_suffix(".lock")):
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                install(folder)
                done.touch()
    except OSError as error:
        raise Missing(f"{folder} cannot be written: {error}") from error
    return folder


@contextmanager
def _locked(path: Path) -> Generator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(*command: str, cwd: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "SSL_CERT_DIR"}  # tests/conftest.py
    try:
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Missing(f"{' '.join(command[:4])} took more than {SECONDS} seconds") from None
    if done.returncode:
        said = (line for line in done.stderr.splitlines() if "error" in line.lower())
        raise Missing(f"{' '.join(command[:4])} failed: {next(said, 'it says no more')}")
