"""Requirements and tests hold each other."""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATED = re.compile(r"^- \*\*([A-Z]+-\d+)\*\*", re.MULTILINE)
NAMED = re.compile(r"\[([A-Z]+-\d+)\]")


def stated() -> Counter[str]:
    """The ids that the pages of the contract state."""
    return Counter(id for page in (ROOT / "spec").glob("*.md") for id in STATED.findall(page.read_text()))


def named() -> dict[str, list[str]]:
    """The ids that tests name, with the tests."""
    out: dict[str, list[str]] = {}
    for file in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "toolnexus" / "testing").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test"):
                for id in NAMED.findall(ast.get_docstring(node) or ""):
                    out.setdefault(id, []).append(f"{file.relative_to(ROOT)}::{node.name}")
    return out


def test_every_requirement_has_a_test_and_every_test_its_requirement() -> None:
    """[ARCH-06] Both ways, and no id is stated twice."""
    ids, tests = stated(), named()
    assert not [id for id, times in ids.items() if times > 1]
    assert sorted(set(ids) - set(tests)) == []
    assert {id: where for id, where in tests.items() if id not in ids} == {}
