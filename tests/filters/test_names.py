"""Names that reach a model: safe, short, unique, and the same whatever the order."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from toolnexus.core.names import hashed, model_names, sanitize

LONG = "quarterly_revenue_breakdown_by_region_and_product_family_with_a_forecast_of_the_year_v2"
WISHES = ["x.y", "x_y", "x y", "x/y", "plain", "", "ü", "\ud800", LONG, LONG + ".a", LONG + "_a", "-"]
SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def named(pairs: list[tuple[str, str]]) -> dict[str, str]:
    return dict(zip([identity for _, identity in pairs], model_names(pairs), strict=True))


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.sampled_from(WISHES), min_size=1, max_size=9),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_names_are_safe_unique_and_independent_of_order(
    wishes: list[str], hashes: int, shuffle: random.Random
) -> None:
    """[FIL-20] Also when somebody is already called like the name that another gets."""
    pairs = [(wish, f"{n}\0{wish}") for n, wish in enumerate(wishes)]
    for _ in range(hashes):  # the very names that those before would get
        pairs += [(name, f"{len(pairs)}\0copy of {name}") for name in model_names(pairs)[:3]]
    names = named(pairs)
    assert all(SAFE.fullmatch(name) for name in names.values())
    assert len(set(names.values())) == len(pairs)
    shuffle.shuffle(pairs)
    assert named(pairs) == names


def test_a_name_that_fits_and_is_alone_stays_as_it_is() -> None:
    """[FIL-20] Only long and clashing ones get a hash; equal ones of one identity are one name."""
    assert model_names([("srv_a.b", "1"), ("srv_c", "2"), ("srv_c", "2")]) == ["srv_a_b", "srv_c", "srv_c"]
    assert sanitize("a.b c/ü") == "a_b_c__" and len(hashed(LONG, "x")) == 64
    assert model_names([("x" * 64, "1"), ("y" * 65, "2")])[0] == "x" * 64


def test_names_are_the_same_in_every_process() -> None:
    """[FIL-20] Whatever the hash seed."""
    program = (
        "from toolnexus.core.names import model_names\n"
        f"wishes = {WISHES!r}\n"
        "print([n for n in model_names((w, f'{i}-{w}') for i, w in enumerate(wishes))])\n"
    )
    root = Path(__file__).parents[2]
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert printed == {f"{model_names((w, f'{i}-{w}') for i, w in enumerate(WISHES))}\n"}
