"""The builtin `question`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import call
from toolnexus.core.suspension import Answer

pytestmark = pytest.mark.anyio

QUESTIONS: list[dict[str, Any]] = [
    {"question": "Which port?", "header": "Port", "options": ["80", "8080"], "multiple": False},
    {"question": "Why?"},
]


async def test_it_asks_before_it_answers(tmp_path: Path) -> None:
    """[BT-90] Without an answer the call suspends with a request of kind `question`."""
    result = await call("question", tmp_path, questions=QUESTIONS)
    (request,) = result.requests
    assert request.kind == "question"
    assert request.prompt == "Which port? (80 / 8080)\nWhy?"
    assert request.data == {"questions": QUESTIONS}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("8080, weil ä", "8080, weil ä"),
        ([["8080"], "ä"], '[["8080"], "ä"]'),
        ({"Port": "80"}, '{"Port": "80"}'),
        (None, "null"),
    ],
)
async def test_the_answer_comes_back_as_it_was_given(data: Any, expected: str, tmp_path: Path) -> None:
    """[BT-91] Text is returned as text, everything else as JSON."""
    result = await call("question", tmp_path, answer=Answer(id="req_1", data=data), questions=QUESTIONS)
    assert (result.output, result.requests, result.is_error) == (expected, (), False)
