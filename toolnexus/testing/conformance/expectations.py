"""What a case expects, held against what happened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolnexus.testing.conformance.compare import compare, difference, fits
from toolnexus.testing.conformance.fixture import Data
from toolnexus.testing.conformance.play import Played
from toolnexus.testing.conformance.script import Script, placed, summary


def mismatches(case: Data, played: Played) -> Iterator[str]:
    """A line for every expectation of the case that does not hold."""
    case = placed(case, played.folder)
    script = played.script
    expect: Data = case.get("expect", {})
    yield from compare(expect.get("buildError"), played.build_error, "expect.buildError")
    yield from compare(None, played.broken, "run")
    if script is None:
        return
    for asked in played.malformed:
        yield difference("replies", "a request of its style", asked)
    for asked in script.unanswered:
        yield difference("replies", f"one that fits {asked}", None)
    if played.build_error is None and played.broken is None:
        yield from compare([s.get("expect", {}) for s in case.get("run", ())], played.results, "run")
    for place, wanted in enumerate(expect.get("requests", ())):
        yield from _requests(wanted, script, f"expect.requests[{place}]")
    for name, wanted in expect.get("executed", {}).items():
        calls = summary(script.calls[name]) if name in script.calls else None
        number = not isinstance(wanted, dict)
        yield from compare({"count": wanted} if number else wanted, calls, f"expect.executed.{name}")
    yield from compare(expect.get("files", {}), played.files, "expect.files")


def _requests(expected: Data, script: Script, where: str) -> Iterator[str]:
    chosen = [span for span in script.requests if fits(expected.get("of", {}), span.data)]
    if not chosen and expected.get("count") != 0:
        yield difference(f"{where}.of", expected.get("of", {}), "no such request")
    counted: dict[str, Any] = {key: value for key, value in expected.items() if key not in ("of", "are")}
    yield from compare(counted, summary(chosen), where)
    for span in chosen:
        yield from compare(expected.get("are", {}), span.data, f"{where}.are ({span.data['path']})")
