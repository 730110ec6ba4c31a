"""The filter itself: its shapes, its globs, and what it may never do."""

from __future__ import annotations

import logging
from fnmatch import fnmatchcase
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolnexus import ConfigError, Toolkit, tool
from toolnexus.tools.filters import NameFilter

NAMES = ["bash", "read", "write", "web_get", "web_put", "a*b", "[x]"]
PATTERNS = st.sampled_from([*NAMES, "*", "web_*", "?ead", "[bw]*", "zzz*", "*_put"])
FILTERS: Any = st.one_of(
    st.none(),
    st.booleans(),
    st.lists(PATTERNS, max_size=4),
    st.dictionaries(PATTERNS, st.booleans(), max_size=4),
)
quickly = settings(max_examples=100, deadline=None, derandomize=True, database=None)


def passed(spec: Any, names: list[str] = NAMES) -> list[str]:
    return [name for name in names if NameFilter.of(spec, "here").admits(name)]


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        (None, NAMES),
        (True, NAMES),
        ({}, NAMES),
        (False, []),
        ([], []),
        (["read", "web_*"], ["read", "web_get", "web_put"]),
        (("read",), ["read"]),
        ({"read": True, "bash": True}, ["bash", "read"]),
        ({"bash": False, "w*": False}, ["read", "a*b", "[x]"]),
        ({"w*": True, "web_put": False}, ["write", "web_get"]),
        ({"read": True, "read*": False}, []),
        ({"nothing*": True}, []),
        (["BASH", "Read"], []),
    ],
    ids=repr,
)
def test_what_each_shape_means(spec: Any, names: list[str]) -> None:
    """[FIL-01] None, true and `{}` are all; false and `[]` none; a list and any `true` name what passes; only
    `false` what does not; `false` wins; case counts."""
    assert passed(spec) == names


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("read", "'read'; a filter is a list of names"),
        (b"read", "is no name"),
        (5, "5; a filter is"),
        ({"read"}, "a filter is a list"),
        ([["read"]], r"\['read'\] is no name"),
        ([None], "None is no name"),
        ({"read": 1}, "'read': 1; a filter maps names to true or false"),
        ({"read": "no"}, "'read': 'no'"),
        ({1: True}, "1: True"),
    ],
    ids=repr,
)
def test_any_other_shape_is_refused_where_it_stands(spec: Any, told: str) -> None:
    """[FIL-02] The error names the place, what came and what is allowed."""
    with pytest.raises(ConfigError, match=f"^over there: .*{told}"):
        NameFilter.of(spec, "over there")


def test_a_name_that_looks_like_a_glob_means_itself() -> None:
    """[FIL-03] Brackets and stars in a name are no obstacle to naming it."""
    assert passed(["[x]"]) == ["[x]"] and passed({"a*b": False})[-1] == "[x]"
    NameFilter.of(["[x]", "a*b"], "here").check(NAMES, "here")


def test_a_misspelt_name_is_an_error_and_an_empty_glob_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """[FIL-04] In a list, among `true` and among `false`; the nearest names are told, and of very many names
    only the first."""
    for spec in (["raed"], {"raed": True}, {"raed": False}):
        with pytest.raises(ConfigError, match=r"^here: there is no 'raed'; available: .*did you mean 'read'"):
            NameFilter.of(spec, "here").check(NAMES, "here")
    with pytest.raises(ConfigError, match=r"'n039', … 260 more\]; did you mean 'n299'") as caught:
        NameFilter.of(["n2999"], "here").check([f"n{i:03}" for i in range(300)], "here")
    assert len(str(caught.value)) < 500
    NameFilter.of({"mail_*": False, "x?": True}, "here").check(NAMES, "here")
    assert [r.getMessage() for r in caplog.records] == [
        "here: pattern 'x?' matches nothing",
        "here: pattern 'mail_*' matches nothing",
    ]


def test_a_name_that_may_yet_come_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """[FIL-04] Only names that match what is awaited; a misspelling beside them is still an error."""
    caplog.set_level(logging.WARNING)
    NameFilter.of(["srv_echo", "read"], "here").check(NAMES, "here", awaited=["srv_*"])
    NameFilter.of(["anything"], "here").check(NAMES, "here", awaited=["*"])
    assert len(caplog.records) == 2 and "there is no 'srv_echo'" in caplog.text
    with pytest.raises(ConfigError, match="'raed'"):
        NameFilter.of(["srv_echo", "raed"], "here").check(NAMES, "here", awaited=["srv_*"])


@quickly
@given(FILTERS, FILTERS)
def test_a_filter_only_narrows(first: Any, second: Any) -> None:
    """[FIL-05] What passes was there, in the same order; two filters pass what both pass; nothing that is
    denied passes."""
    once = passed(first)
    assert once == [name for name in NAMES if name in once]
    assert passed(second, once) == [name for name in once if name in passed(second)]
    for spec in (first, second):
        flags = cast("dict[str, bool]", spec) if isinstance(spec, dict) else {}
        no = [p for p, flag in flags.items() if not flag]
        assert not [n for n in passed(spec) if any(fnmatchcase(n, p) for p in no)]


@quickly
@given(st.lists(PATTERNS, max_size=3), st.lists(PATTERNS, max_size=3))
def test_views_of_a_toolkit_only_narrow(keep: list[str], drop: list[str]) -> None:
    """[FIL-05] `only` and `without` in any order give the same tools, never one that was not there."""

    def make(name: str) -> Any:
        return tool(name=name, description="")(lambda: name)

    names = ["bash", "read", "write", "web_get", "web_put"]
    kit = Toolkit([make(name) for name in names])
    keep = [p for p in keep if p not in ("a*b", "[x]")]
    drop = [p for p in drop if p not in ("a*b", "[x]")]
    one = kit.only(*keep).filtered(lambda t: t.name in kit.without(*drop))
    two = kit.without(*drop).filtered(lambda t: t.name in kit.only(*keep))
    assert one.names() == two.names() == [n for n in names if n in one and n in kit]
