"""Environments for packages of others: made once, on request, in the user's cache.

A changed requirement is another folder; whoever wants newer releases deletes the folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

SECONDS = 900
"""For one installation."""


def cache() -> Path:
    """Where they are, unless somebody says otherwise."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolnexus" / "benchmarks"


def python_with(name: str, requirements: Sequence[str], folder: Path | None = None) -> str:
    """The interpreter of the environment `name` under `folder`, in which `requirements` are installed.

    Raises `RuntimeError` with what the installer said.
    """
    key = hashlib.sha256("\n".join(requirements).encode()).hexdigest()[:12]
    home = (folder or cache()).absolute() / f"{name}-{sys.version_info.minor}-{key}"
    python, done = home / ("Scripts" if os.name == "nt" else "bin") / "python", home / "installed"
    if not done.exists():
        print(f"installing {', '.join(requirements)} in {home}", file=sys.stderr, flush=True)
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements]
        said = subprocess.run(install, capture_output=True, text=True, timeout=SECONDS)
        if said.returncode:
            errors = [line for line in said.stderr.splitlines() if "error" in line.lower()]
            raise RuntimeError(f"{name} cannot be installed: {errors[-1] if errors else said.stderr[-200:]}")
        done.touch()
    return str(python)
