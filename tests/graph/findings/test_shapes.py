"""What is found in the shape of a graph, held against looking at every way."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolnexus import graph

Edges = list[tuple[int, int, bool]]
NODES = 6
edges = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1), st.booleans()), max_size=12)


def found(edges: Edges, kind: str) -> list[str]:
    """The nodes of the findings of one kind; edges are from, to, and whether they have a condition."""
    types = graph.Registry()
    types.fallback(_nothing)
    document = {
        "name": "g",
        "entry": "0",
        "nodes": [{"id": str(n), "type": "any"} for n in range(NODES)],
        "edges": [
            {"from": str(a), "to": str(b), **({"condition": "x"} if sometimes else {})}
            for a, b, sometimes in edges
        ],
    }
    built = graph.build(graph.GraphDefinition.from_data(document), types)
    return [finding.node_id for finding in built.warnings if finding.kind == kind]


async def _nothing(ctx: graph.NodeContext, board: graph.Board, config: object) -> None:
    """Does nothing."""


def distances(edges: Edges, start: int, without: int | None = None) -> dict[int, int]:
    out = {start: 0}
    for _ in range(NODES):
        for a, b, _sometimes in edges:
            if a in out and b != without and out.get(b, NODES) > out[a] + 1:
                out[b] = out[a] + 1
    return out


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR", "toolnexus.graph")


@settings(max_examples=50, deadline=None)
@given(edges)
def test_an_unguarded_cycle_is_one_that_nothing_leaves(edges: Edges) -> None:
    """[GR-451] Each group of nodes that lead to each other only, always, once, at its first node."""
    reach = {n: set(distances(edges, n)) for n in range(NODES)}
    groups = {frozenset(m for m in range(NODES) if m in reach[n] and n in reach[m]) for n in range(NODES)}
    caught = {
        str(min(group))
        for group in groups
        if (own := [e for e in edges if e[0] in group])
        and all(not sometimes and b in group for _, b, sometimes in own)
    }
    said = found(edges, "unguarded_cycle")
    assert set(said) == caught and len(said) == len(caught)


@settings(max_examples=50, deadline=None)
@given(edges)
def test_an_uneven_join_is_reached_by_ways_of_different_length(edges: Edges) -> None:
    """[GR-452] None is found that is even, and none is missed but behind another one."""
    uneven: set[int] = set()
    for fork in range(NODES):
        sure = {b for a, b, sometimes in edges if a == fork and not sometimes}
        targets = dict.fromkeys(b for a, b, _ in edges if a == fork)
        for a, b in combinations(targets, 2):
            one, other = distances(edges, a, fork), distances(edges, b, fork)
            if sure & {a, b}:
                uneven |= {n for n in one.keys() & other.keys() if one[n] != other[n]}
    said = {int(node) for node in found(edges, "uneven_join")}
    assert said <= uneven
    assert uneven <= {m for n in said for m in distances(edges, n)}


@settings(max_examples=50, deadline=None)
@given(edges)
def test_branches_that_never_meet_are_found(edges: Edges) -> None:
    """[GR-453] Where always two ways are taken that have nothing in common behind them."""
    apart = set[str]()
    for fork in range(NODES):
        sure = {b for a, b, sometimes in edges if a == fork and not sometimes}
        behind = [set(distances(edges, b)) for b in sure]
        if len(sure) > 1 and not behind[0].intersection(*behind[1:]):
            apart.add(str(fork))
    assert set(found(edges, "parallel_no_join")) == apart


@pytest.mark.parametrize(
    ("one", "other", "is_complete"),
    [
        ("x == true", "x == false", True),
        ("x", "not x", True),
        ("!(a.b[0] == 1)", "a.b[0]==1", True),
        ("x != true", "((x))", True),
        ("a?.kind == 'true'", 'a?.kind != "true"', True),
        ("n < 5", "n >= 5", True),
        ("len(x) > 2", "not (len(x) > 2)", True),
        ("a < b == true", "(a < b) == false", False),
        ("x == true", "y == false", False),
        ("x == 1", "x == 2", False),
        ("n < 5", "n > 5", False),
        ("a and x == true", "a and x == false", False),
        ("a and (x == true)", "not (a and x == true)", False),
        ("not a == b", "a == b", False),
        ("x in [1]", "x not in [1]", False),
        ("a or b == 1", "a or b != 1", False),
        ("a ? b == 1 : c", "a ? b != 1 : c", False),
        ("x == true", "x == true", False),
        ("x == 'true'", "x == false", False),
    ],
)
def test_a_default_is_missed_unless_two_conditions_are_opposites(
    one: str, other: str, is_complete: bool
) -> None:
    """[GR-455] By their texts alone; what is not seen to be complete is told."""
    types = graph.Registry()
    types.fallback(_nothing)
    ends = [{"from": "a", "to": "__end__", "condition": text} for text in (one, "z > 3", other)]
    document = {"name": "g", "entry": "a", "nodes": [{"id": "a", "type": "any"}], "edges": ends}
    built = graph.build(graph.GraphDefinition.from_data(document), types)
    assert [finding.kind for finding in built.warnings] == ["missing_default_branch"] * (not is_complete)
