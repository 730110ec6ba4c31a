"""The cases of conformance/graph, and those of the file or folder that GRAPH_CASES names."""

import os
from pathlib import Path

import pytest

from tests.graph.acceptance.runner import Case, cases_of, play, rows_of

pytestmark = pytest.mark.anyio
FOLDERS = [Path(__file__).parents[3] / "conformance" / "graph"]
if more := os.environ.get("GRAPH_CASES"):
    FOLDERS.append(Path(more))
ROWS = dict(row for folder in FOLDERS for case in cases_of(folder) for row in rows_of(case))


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
async def test_a_case_comes_out_as_it_says(row: Case) -> None:
    """[GR-450] Every case of conformance/graph holds: graphs as data, with what must come of them."""
    await play(row)
