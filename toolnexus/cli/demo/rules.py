"""Judging boundaries: what words say about a limit against what a comparison does."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RULE = re.compile(r"(?P<words>from|at least|up to|at most)\s+`?(?P<name>[A-Z][A-Z_]+)\b")
_TEST = re.compile(r"(?P<op>[<>]=?)\s*(?P<name>[A-Z][A-Z_]+)\b")
_INCLUDES = {"from": (">=", "<"), "at least": (">=", "<"), "up to": ("<=", ">"), "at most": ("<=", ">")}

LIMIT_PATTERN = r"[<>]=? *[A-Z][A-Z_]+"
"""For `grep`: a comparison with a limit."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A comparison that leaves out what the words include."""

    path: str
    line: int
    code: str
    name: str
    words: str

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def repaired(self) -> str:
        """The line as it should be."""
        old = _TEST.search(self.code)
        wrong = old["op"] if old else ""
        right = next((op for op in _INCLUDES[self.words] if op[0] == wrong[:1]), wrong)
        return self.code.replace(f"{wrong} {self.name}", f"{right} {self.name}", 1)


def rules(text: str) -> dict[str, str]:
    """What `text` says about limits: name to words, such as `FREE_FROM` to `from`."""
    return {match["name"]: match["words"] for match in _RULE.finditer(text)}


def judge(path: str, line: int, code: str, known: dict[str, str]) -> Finding | None:
    """The finding about one line of code, if its comparison goes against the words."""
    match = _TEST.search(code)
    if match is None or (words := known.get(match["name"])) is None:
        return None
    if match["op"] in _INCLUDES[words]:
        return None
    return Finding(path, line, code.strip(), match["name"], words)


def judge_file(path: str, text: str, known: dict[str, str]) -> list[Finding]:
    """The findings about a whole file; its own docstrings count as words, too."""
    words = known | rules(text)
    found = [judge(path, number, code, words) for number, code in enumerate(text.splitlines(), 1)]
    return [finding for finding in found if finding is not None]
