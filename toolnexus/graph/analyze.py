"""What is probably not meant in the shape of a graph. A finding never keeps a graph from being built."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from toolnexus.graph.definition import END, EdgeDef, GraphDefinition
from toolnexus.graph.expr import Condition
from toolnexus.graph.expr.opposites import exhaustive
from toolnexus.graph.refs import references

if TYPE_CHECKING:
    from toolnexus.graph.build import BuiltNode

MOST_LOOKS = 2_000_000
"""Of a graph so large that it takes more, forks are no longer looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is probably not meant.

    `kind`: `unreachable_node`, `dead_end_node`, `unguarded_cycle`, `missing_default_branch`,
    `unresolved_reference`, `parallel_no_join`, `uneven_join`, `suspicious_identifier` or
    `recovery_without_loop`.
    """

    kind: str
    node_id: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: node {self.node_id!r}: {self.message}"


def analyze(definition: GraphDefinition, nodes: Mapping[str, BuiltNode]) -> list[Finding]:
    """The findings, in the order of their kinds and of the document."""
    shape = _Shape(definition)
    found = [
        *_unreachable(shape),
        *_dead_ends(shape),
        *_cycles(shape),
        *_no_default(shape),
        *_unresolved(nodes),
        *_no_join(shape),
        *_uneven(shape),
        *_suspicious(definition, shape),
        *_no_loop(definition, shape),
    ]
    return [Finding(kind=kind, node_id=node, message=message) for kind, node, message in found]


_Found = Iterator[tuple[str, str, str]]


class _Shape:
    """The nodes and where their edges lead."""

    def __init__(self, definition: GraphDefinition) -> None:
        self.entry = definition.entry
        self.ids = [node.id for node in definition.nodes]
        self.edges: dict[str, list[EdgeDef]] = {id: [] for id in self.ids}
        for edge in definition.edges:
            self.edges[edge.from_].append(edge)
        self.next = {id: self._targets(id) for id in self.ids}
        self.sure = {id: self._targets(id, unconditional=True) for id in self.ids}
        self.looks = 0
        """How many edges were looked at to find distances."""

    def _targets(self, id: str, *, unconditional: bool = False) -> list[str]:
        edges = [e for e in self.edges[id] if e.to != END and not (unconditional and e.condition)]
        return list(dict.fromkeys(e.to for e in edges))

    def distances(self, start: str, without: str | None = None) -> dict[str, int]:
        """How many steps away everything is that can be reached from `start`, itself at 0."""
        found, at, steps = {start: 0}, [start], 0
        while at:
            steps += 1
            reached: list[str] = []
            for id in at:
                for target in self.next[id]:
                    if target not in found and target != without:
                        found[target] = steps
                        reached.append(target)
            at = reached
        self.looks += len(found) + sum([len(self.next[id]) for id in found])
        return found

    def way(self, start: str, end: str) -> str:
        """The shortest way, in words."""
        before, at = {start: start}, [start]
        while end not in before:
            fresh = {target: id for id in reversed(at) for target in self.next[id] if target not in before}
            before.update(fresh)
            at = list(fresh)
        steps = [end]
        while steps[-1] != start:
            steps.append(before[steps[-1]])
        return " → ".join(reversed(steps))

    def cycles(self) -> list[list[str]]:
        """The nodes that can be reached from each other, and each other node by itself; in document order."""
        place = {id: n for n, id in enumerate(self.ids)}
        number: dict[str, int] = {}
        lowest: dict[str, int] = {}
        path: list[str] = []
        open_: set[str] = set()
        out: list[list[str]] = []
        for root in self.ids:
            todo = [] if root in number else [(root, iter(self.next[root]))]
            while todo:
                id, targets = todo[-1]
                if id not in number:
                    number[id] = lowest[id] = len(number)
                    path.append(id)
                    open_.add(id)
                target = next((t for t in targets if t not in number or t in open_), None)
                if target is None:
                    todo.pop()
                    if todo:
                        above = todo[-1][0]
                        lowest[above] = min(lowest[above], lowest[id])
                    if lowest[id] == number[id]:
                        members = [path.pop()]
                        while members[-1] != id:
                            members.append(path.pop())
                        open_.difference_update(members)
                        out.append(sorted(members, key=place.__getitem__))
                elif target in number:
                    lowest[id] = min(lowest[id], number[target])
                else:
                    todo.append((target, iter(self.next[target])))
        return sorted(out, key=lambda members: place[members[0]])


def _unreachable(shape: _Shape) -> _Found:
    reached = shape.distances(shape.entry)
    for id in shape.ids:
        if id not in reached:
            yield "unreachable_node", id, f"nothing leads to it from the entry {shape.entry!r}"


def _dead_ends(shape: _Shape) -> _Found:
    for id in shape.ids:
        if not shape.edges[id]:
            yield "dead_end_node", id, f"no edge leaves it; write an edge to {END!r} if the path ends here"


def _cycles(shape: _Shape) -> _Found:
    for members in shape.cycles():
        inside = set(members)
        edges = [edge for member in members for edge in shape.edges[member]]
        if edges and all(not e.condition and e.to in inside for e in edges):
            ring = " → ".join([*members, members[0]])
            yield "unguarded_cycle", members[0], f"nothing ends the cycle {ring} but the limit of iterations"


def _no_default(shape: _Shape) -> _Found:
    for id in shape.ids:
        conditions = [edge.condition for edge in shape.edges[id]]
        if len(conditions) >= 2 and all(conditions) and not exhaustive(conditions):
            yield (
                "missing_default_branch",
                id,
                "each of its edges has a condition; when none holds, the path ends",
            )


def _unresolved(nodes: Mapping[str, BuiltNode]) -> _Found:
    written = {role.key for node in nodes.values() for role in node.writes if role.kind == "var"}
    for node in nodes.values():
        if not node.dynamic:
            continue
        try:
            found = references(node.config, node.type.verbatim)
        except ValueError as error:
            yield "unresolved_reference", node.id, str(error)
            continue
        for path, has_default in dict.fromkeys(found):
            if not has_default and path not in written and path.partition(".")[0] not in written:
                message = f"no node says that it writes {path!r}; it must be among the inputs"
                yield "unresolved_reference", node.id, message


def _no_join(shape: _Shape) -> _Found:
    for id in shape.ids:
        targets = shape.sure[id]
        if len(targets) >= 2 and shape.looks < MOST_LOOKS:
            common = set(shape.ids)
            for target in targets:
                common &= shape.distances(target).keys()
                if not common:
                    yield "parallel_no_join", id, f"{', '.join(targets)} never come together again"
                    break


def _uneven(shape: _Shape) -> _Found:
    told: set[str] = set()
    for fork in shape.ids:
        if len(shape.next[fork]) < 2 or shape.looks >= MOST_LOOKS:
            continue
        reached: dict[str, list[tuple[int, str]]] = {}
        for target in shape.next[fork]:
            for id, steps in shape.distances(target, without=fork).items():
                reached.setdefault(id, []).append((steps, target))
        uneven = [(pair, id) for id, ways in reached.items() if (pair := _pair(ways, shape.sure[fork]))]
        behind: set[str] = set()  # what comes behind an uneven join is uneven because of it
        for (_, a, b), id in sorted(uneven, key=lambda found: found[0][0]):
            if id not in behind and id not in told:
                told.add(id)
                ways = f"{fork} → {shape.way(a, id)} and {fork} → {shape.way(b, id)}"
                yield "uneven_join", id, f"it is reached in different waves, so it runs twice: {ways}"
            if id not in behind:
                behind.update(shape.distances(id))


def _pair(ways: list[tuple[int, str]], sure: Collection[str]) -> tuple[int, str, str] | None:
    """The shortest two of `ways` that differ in length and one of which is always taken, with their sum."""
    ways = sorted(ways, key=lambda way: (way[0], way[1] not in sure))
    shortest, longer = ways[0], next((way for way in ways if way[0] != ways[0][0]), None)
    certain = next((way for way in ways if way[1] in sure), None)
    if longer is None or certain is None:
        return None
    other = longer if certain[0] == shortest[0] else shortest
    first, second = sorted((certain, other))
    return first[0] + second[0], first[1], second[1]


def _suspicious(definition: GraphDefinition, shape: _Shape) -> _Found:
    for node in definition.nodes:
        texts = [node.skip_condition, *[edge.condition for edge in shape.edges[node.id]]]
        words = [word for text in texts if text for word in Condition(text).suspicious]
        for word in dict.fromkeys(words):
            plain = {"True": "true"}.get(word, "nil")
            yield "suspicious_identifier", node.id, f"{word} is a variable here; write {plain}"


def _no_loop(definition: GraphDefinition, shape: _Shape) -> _Found:
    tested = {name for edge in definition.edges if edge.condition for name in Condition(edge.condition).names}
    for node in definition.nodes:
        recovery: Any = node.config.get("undefined_tool_recovery")
        if not isinstance(recovery, Mapping) or not cast("Mapping[str, Any]", recovery).get("enabled"):
            continue
        key = node.config.get("recover_pending_key")
        if key is None and _always_returns(shape, node.id):
            continue
        if key not in tested:
            told = f"no edge tests {key!r}" if key else "it has no recover_pending_key"
            yield "recovery_without_loop", node.id, f"{told}: after a recovery the model gets no other round"


def _always_returns(shape: _Shape, id: str) -> bool:
    at, seen = list(shape.sure[id]), set[str]()
    while at:
        here = at.pop()
        if here == id:
            return True
        if here not in seen:
            seen.add(here)
            at += shape.sure[here]
    return False
