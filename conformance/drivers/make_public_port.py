"""Makes an environment with the public port: `python make_public_port.py FOLDER`."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

PORT = "toolnexus==0.21.*"


def main() -> int:
    """Make it, if it is not there, and print the command for `--driver`."""
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} FOLDER", file=sys.stderr)
        return 2
    python = Path(sys.argv[1]).absolute() / "bin" / "python"
    if not python.exists():
        venv.create(sys.argv[1], with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", PORT], check=True)
    print(f"{python} -I {Path(__file__).resolve().parent / 'public_port.py'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
