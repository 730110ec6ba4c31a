"""What is measured is what the page says; `make coverage` measures it."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_branch_of_the_core_is_to_run() -> None:
    """[ROB-20] The two folders whole but for one protocol, in branches; nothing is left out by a comment."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage"]
    assert options["run"]["source_pkgs"] == ["toolnexus.engine", "toolnexus.runtime"]
    assert options["run"]["branch"] is True and options["report"]["fail_under"] == 100
    assert options["report"]["omit"] == ["toolnexus/runtime/runner.py"]
    assert {*options["run"], *options["report"]}.isdisjoint(
        {"exclude_lines", "exclude_also", "partial_branches"}
    )
    files = [file for folder in ("engine", "runtime") for file in (ROOT / "toolnexus" / folder).rglob("*.py")]
    assert len(files) > 50
    assert [file.name for file in files if "pragma: no" in file.read_text()] == []
    recipe = (ROOT / "Makefile").read_text().split("\ncoverage:")[1].split("\n\n")[0]
    assert "coverage run -m pytest" in recipe and "coverage report" in recipe
