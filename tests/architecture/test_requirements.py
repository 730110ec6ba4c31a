"""Requirements and tests hold each other."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATED = re.compile(r"^- \*\*([A-Z][A-Z0-9]*-\d+)\*\*", re.MULTILINE)
TEST = re.compile(
    r'^ *(?:async )?def (test\w*)\((?:(?!^ *(?:async )?def ).)*?:\n +r?"""(.*?)"""', re.MULTILINE | re.DOTALL
)
"""A test and its docstring, in the one way that the formatter writes it: parsing all files takes seconds."""
NAMED = re.compile(r"\[([A-Z][A-Z0-9]*-\d+)\]")


def stated() -> Counter[str]:
    """The ids that the pages of the contract state."""
    return Counter(id for page in (ROOT / "spec").glob("*.md") for id in STATED.findall(page.read_text()))


def named() -> dict[str, list[str]]:
    """The ids that tests name, with the tests."""
    out: dict[str, list[str]] = {}
    for file in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "toolnexus" / "testing").rglob("*.py")]:
        for test, doc in TEST.findall(file.read_text()):
            for id in NAMED.findall(doc):
                out.setdefault(id, []).append(f"{file.relative_to(ROOT)}::{test}")
    return out


def test_every_requirement_has_a_test_and_every_test_its_requirement() -> None:
    """[ARCH-06] Both ways, and no id is stated twice."""
    ids, tests = stated(), named()
    assert not [id for id, times in ids.items() if times > 1]
    assert sorted(set(ids) - set(tests)) == []
    assert {id: where for id, where in tests.items() if id not in ids} == {}
