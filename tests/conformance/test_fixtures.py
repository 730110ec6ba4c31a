"""The fixtures that pin the contract, played against this package."""

from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from tests.conformance.test_interpreter import changed
from toolnexus.testing.conformance.expectations import mismatches
from toolnexus.testing.conformance.fixture import find, home, label, load, validator
from toolnexus.testing.conformance.play import play

ROOT = home().parent
FOUNDING = ("subagent-fanout", "agent-registry", "subagent-isolation", "subagent-limits")

CASES = [pytest.param(case, id=f"{label(path)}: {case['name']}") for path in find() for case in load(path)]


@pytest.mark.anyio
@pytest.mark.parametrize("case", CASES)
async def test_the_package_does_what_the_fixtures_say(case: dict[str, Any]) -> None:
    """[FIX-01] [FIX-06] Every case of every fixture holds, through the public API alone, and with any single
    value that it expects changed it does not."""
    world = await play(case)
    assert list(mismatches(case, world)) == []
    for broken, place in changed(case):
        assert list(mismatches(broken, world)), f"{place} may be anything"


@pytest.mark.parametrize("name", FOUNDING)
def test_the_four_founding_fixtures_are_there(name: str) -> None:
    """[FIX-02] Fan-out, registry, isolation and limits are fixtures beside their example program."""
    path = ROOT / "examples" / name / "fixture.json"
    assert len(load(path)) >= 10
    assert (path.parent / "main.py").is_file()


def test_a_fixture_is_data_that_the_schema_describes() -> None:
    """[FIX-03] The schema is a valid one, every file fits it, and nothing in one is Python."""
    Draft202012Validator.check_schema(validator().schema)
    for path in find():
        assert load(path)  # which holds it against the schema
        text = path.read_text(encoding="utf-8")
        for word in ("toolnexus.", "python", "asyncio", "None", "True", "False", "Exception", "ConfigError"):
            assert word not in text, (path, word)


def test_the_format_page_explains_every_key() -> None:
    """[FIX-04] Whatever the schema allows is in FORMAT.md."""
    page = (home() / "FORMAT.md").read_text(encoding="utf-8")
    missing = sorted(key for key in _keys(validator().schema) if f"`{key}`" not in page)
    assert missing == []


def _keys(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set[str]().union(*map(_keys, cast("list[Any]", schema)))
    if not isinstance(schema, dict):
        return set()
    parts = cast(dict[str, Any], schema)
    return set(parts.get("properties", ())).union(*map(_keys, parts.values()))
