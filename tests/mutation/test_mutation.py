"""The tool that changes the core: what it changes, what it leaves alone, and what it found."""

import logging
import re
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.swap import CannotSwap, put

ROOT = Path(__file__).parents[2]
SOURCE = '''"""Docs."""
LIMIT = 3
__all__ = ["small"]


class Some:
    """Docs."""

    def __repr__(self) -> str:
        return "x"

    def small(self, given: int, *, most: "int | None" = None, wide: bool = False) -> bool:
        """Docs."""
        logger.info("it is %s", given)
        if given < LIMIT and not wide:
            raise ValueError(f"too {given}", "a text", "word")
        for n in range(-1, given):
            if n == 2:
                break
            self.keep(n, sep="k")
        return given + 1
'''


@pytest.fixture
def mutants(tmp_path: Path) -> list[Mutant]:
    (tmp_path / "some.py").write_text(SOURCE)
    return mutants_of(tmp_path, "some.py")


def test_each_change_is_small_and_texts_are_left_alone(mutants: list[Mutant]) -> None:
    """[ROB-12] All that there are for a function, and none of docstrings, annotations, logs and wording."""
    assert [(m.line, m.kind, m.text) for m in mutants] == [
        (2, "constant", "`3` → `4`"),
        (12, "constant", "`False` → `True`"),
        (15, "condition", "`given < LIMIT and (not wide)` → `not (given < LIMIT and (not wide))`"),
        (15, "and/or", "`given < LIMIT and (not wide)` → `given < LIMIT or not wide`"),
        (15, "comparison", "`given < LIMIT` → `given <= LIMIT`"),
        (15, "not", "`not wide` → `wide`"),
        (16, "raise removed", "`raise ValueError(f'too {given}', 'a text', 'word')` → `pass`"),
        (17, "sign", "`-1` → `1`"),
        (17, "constant", "`1` → `2`"),
        (18, "comparison", "`n == 2` → `n != 2`"),
        (18, "constant", "`2` → `3`"),
        (19, "break", "`break` → `continue`"),
        (20, "call removed", "`self.keep(n, sep='k')` → `pass`"),
        (20, "argument removed", "`self.keep(n, sep='k')` → `without sep='k'`"),
        (20, "constant", "`'k'` → `'XXkXX'`"),
        (21, "return", "`return given + 1` → `return None`"),
        (21, "operator", "`given + 1` → `given - 1`"),
        (21, "constant", "`1` → `2`"),
    ]
    assert len({m.id for m in mutants}) == len(mutants)


def test_a_mutant_runs_in_place_of_what_is_loaded(mutants: list[Mutant], tmp_path: Path) -> None:
    """[ROB-12] The function that is there already does the changed thing; where it cannot, it is said."""
    loaded: dict[str, Any] = {"__name__": "some"}
    exec(compile(SOURCE, str(tmp_path / "some.py"), "exec"), loaded)
    small: FunctionType = loaded["Some"].small
    loaded["logger"] = logging.getLogger("some")
    some = loaded["Some"]()
    some.keep = print
    alive = {(str(tmp_path / "some.py"), "Some.small", 12): [small]}
    assert some.small(7) == 8
    put(mutants[-2], tmp_path, alive)
    assert some.small(7) == 6
    with pytest.raises(CannotSwap):
        put(mutants[-1], tmp_path, {})


def test_the_page_has_the_figures() -> None:
    """[ROB-12] Both folders stand there, and of neither less than 85 % is noticed."""
    page = (ROOT / "docs/mutation.md").read_text()
    shares = re.findall(r"\| \*\*(engine|runtime)/\*\* .*\| ([\d.]+) % \|$", page, re.MULTILINE)
    assert [name for name, _ in shares] == ["engine", "runtime"]
    assert all(float(share) >= 85 for _, share in shares)
    listed = (ROOT / "tests/mutation/survivors.md").read_text().count("\n* ")
    count = sum(int(n) for n in re.findall(r"^\| (\d+) \| [a-z]", page, re.MULTILINE))
    assert listed == count
