"""The picture in the README, made from a real run of the demo.

`python tests/readme/picture.py` runs the demo and writes what it showed into README.md.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
PLACE = re.compile(r"(<!-- picture:.*?-->\n```\n)(.*?)(```\n<!-- /picture -->)", re.DOTALL)


def picture() -> str:
    """The tree and the figures that one run of the demo ends with."""
    demo = [sys.executable, "-m", "toolnexus", "demo", "--plain"]
    return tree_of(subprocess.run(demo, capture_output=True, text=True, check=True, timeout=60).stdout)


def tree_of(output: str) -> str:
    tree = output[output.index("\n\n", output.index("main  ends")) :]
    return tree[: tree.index("\nreport ")].strip("\n") + "\n"


def shape(text: str) -> list[str]:
    """What is the same in every run: names, states and words, without times, bars and figures."""
    lines = [re.sub(r"\s+", " ", re.sub(r"[░█▪]+|[\d.,]+", "", line)).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def shown() -> str:
    """The picture that the README shows."""
    found = PLACE.search(README.read_text())
    assert found is not None
    return found[2]


if __name__ == "__main__":
    text = README.read_text()
    made = picture()
    README.write_text(PLACE.sub(lambda m: m[1] + made + m[3], text))
