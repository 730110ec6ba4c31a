"""What is probably not meant in the shape of a graph. A finding never keeps a graph from being built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from toolnexus.graph.definition import END, EdgeDef, GraphDefinition
from toolnexus.graph.refs import references

if TYPE_CHECKING:
    from toolnexus.graph.build import BuiltNode


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
        *_suspicious(definition, nodes),
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

    def _targets(self, id: str, *, unconditional: bool = False) -> list[str]:
        edges = [e for e in self.edges[id] if e.to != END and not (unconditional and e.condition)]
        return list(dict.fromkeys(e.to for e in edges))

    def distances(self, start: str, without: str | None = None) -> dict[str, int]:
        """How many steps away everything is that can be reached from `start`, itself at 0."""
        found, at, steps = {start: 0}, [start], 0
        while at:
            steps += 1
            fresh = dict.fromkeys(t for id in at for t in self.next[id] if t not in found and t != without)
            found.update((id, steps) for id in fresh)
            at = list(fresh)
        return found

    def way(self, start: str, end: str) -> str:
        """The shortest way, in words."""
        before: dict[str, str] = {}
        at = [start]
        while at and end not in before and start != end:
            fresh = [(t, id) for id in at for t in self.next[id] if t not in before and t != start]
            before.update((t, id) for t, id in reversed(fresh))
            at = [t for t, _ in fresh]
        steps = [end]
        while steps[-1] in before and steps[-1] != start:
            steps.append(before[steps[-1]])
        return " → ".join(reversed(steps))


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
    told: set[str] = set()
    reach = {id: set(shape.distances(id)) for id in shape.ids}
    for id in shape.ids:
        if id in told:
            continue
        members = [other for other in shape.ids if other in reach[id] and id in reach[other]]
        told.update(members)
        inside = set(members)
        edges = [edge for member in members for edge in shape.edges[member]]
        if edges and all(not e.condition and e.to in inside for e in edges):
            ring = " → ".join([*members, members[0]])
            yield "unguarded_cycle", members[0], f"nothing ends the cycle {ring} but the limit of iterations"


def _no_default(shape: _Shape) -> _Found:
    for id in shape.ids:
        edges = shape.edges[id]
        if len(edges) >= 2 and all(edge.condition for edge in edges):
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
        if len(targets) >= 2:
            common = set(shape.ids)
            for target in targets:
                common &= set(shape.distances(target))
            if not common:
                yield "parallel_no_join", id, f"{', '.join(targets)} never come together again"


def _uneven(shape: _Shape) -> _Found:
    told: set[str] = set()
    for fork in shape.ids:
        targets = shape.next[fork]
        away = {target: shape.distances(target, without=fork) for target in targets}
        for n, a in enumerate(targets):
            for b in targets[n + 1 :]:
                if a not in shape.sure[fork] and b not in shape.sure[fork]:
                    continue
                both = [id for id in shape.ids if id in away[a] and id in away[b]]
                uneven = [id for id in both if away[a][id] != away[b][id]]
                first = min(uneven, key=lambda id: away[a][id] + away[b][id], default=None)
                if first is not None and first not in told:
                    told.add(first)
                    ways = f"{fork} → {shape.way(a, first)} and {fork} → {shape.way(b, first)}"
                    yield "uneven_join", first, f"it is reached in different waves, so it runs twice: {ways}"


def _suspicious(definition: GraphDefinition, nodes: Mapping[str, BuiltNode]) -> _Found:
    from toolnexus.graph.expr import Condition

    def words(text: str) -> tuple[str, ...]:
        return Condition(text).suspicious if text else ()

    for node in definition.nodes:
        texts = [node.skip_condition, *(e.condition for e in definition.edges if e.from_ == node.id)]
        for word in dict.fromkeys(word for text in texts for word in words(text)):
            plain = {"True": "true"}.get(word, "nil")
            yield "suspicious_identifier", node.id, f"{word} is a variable here; write {plain}"


def _no_loop(definition: GraphDefinition, shape: _Shape) -> _Found:
    from toolnexus.graph.expr import Condition

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
