"""Hold a toy implementation and this package against the same fixture."""

import sys
from pathlib import Path

from toolnexus.cli.main import main

HERE = Path(__file__).parent

toy = f"{sys.executable} {HERE / 'toy.py'}"
main(["conformance", str(HERE / "cases.json"), "--driver", "own", "--driver", toy, "--seconds", "0.5"])
