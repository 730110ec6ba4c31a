"""What a case expects, held against what happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.graph.acceptance.world import AGENT, RUN, Host, World
from toolnexus import Message, graph
from toolnexus.graph.board import same
from toolnexus.graph.build import token


@dataclass
class Played:
    """How a run ended."""

    built: graph.Graph | None
    board: graph.Board
    host: Host
    world: World
    seconds: float
    error: graph.GraphError | graph.GraphRunError | None = None

    def names(self) -> list[str]:
        """The events by their short names: `run.start`, `step.a.complete.skipped`, `delta.a.part`."""
        return [self._name(subject, payload) for subject, payload in self.host.events]

    def deltas(self) -> list[dict[str, Any]]:
        """Every delta, with its node."""
        prefix, suffix = f"agent.run.{RUN}.stream.", ".delta"
        return [
            {"node": self._node(subject.removeprefix(prefix).removesuffix(suffix)), **payload}
            for subject, payload in self.host.events
            if subject.startswith(prefix)
        ]

    def waves(self, what: str) -> list[Mapping[str, Any]]:
        """The payloads of `fork` or `join`."""
        return [p for subject, p in self.host.events if subject.endswith(f".parallel.{what}")]

    def _name(self, subject: str, payload: Mapping[str, Any]) -> str:
        parts = subject.removeprefix(f"agent.run.{RUN}.").split(".")
        if parts[0] == "step":
            skipped = ".skipped" if payload.get("skipped") else ""
            return f"step.{payload['node_id']}.{parts[2]}{skipped}"
        if parts[0] == "stream":
            return f"delta.{self._node(parts[1])}.{payload['type']}"
        return ".".join(parts) if parts[0] == "parallel" else f"run.{'.'.join(parts)}"

    def _node(self, actor: str) -> str:
        nodes = self.built.nodes if self.built is not None else ()
        return next((id for id in nodes if token(f"{AGENT}_node_{id}") == actor), actor)


def check(expect: Mapping[str, Any], played: Played) -> None:
    """Raises `AssertionError` with what differs."""
    if "error" not in expect and "build_error" not in expect and played.error is not None:
        raise AssertionError(f"it failed: {played.error}") from played.error
    for key, wanted in expect.items():
        if key not in CHECKS:
            raise KeyError(f"a case expects {key!r}, which nobody checks; known: {', '.join(sorted(CHECKS))}")
        CHECKS[key](wanted, played)


def spoken(message: Message) -> str:
    return f"{message.role}:{message.text}"


def within(wanted: Any, found: Any) -> bool:
    """Whether `found` is `wanted`; a table may have more in it."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(key in found and within(value, found[key]) for key, value in wanted.items())  # pyright: ignore
    return same(wanted, found)


def _equal(wanted: Any, found: Any) -> None:
    assert found == wanted, f"wanted {wanted!r}, found {found!r}"


def _error(wanted: Mapping[str, Any], played: Played) -> None:
    assert played.error is not None, f"wanted an error {wanted}"
    if "kind" in wanted:
        assert played.error.kind == wanted["kind"], f"{played.error.kind}: {played.error}"
    if "http" in wanted:
        assert played.error.http_status == wanted["http"], f"{played.error.http_status}: {played.error}"
    if "contains" in wanted:
        assert wanted["contains"] in str(played.error), str(played.error)


def _build_error(wanted: Mapping[str, Any], played: Played) -> None:
    _error(wanted, played)
    assert isinstance(played.error, graph.GraphError)


def _vars(wanted: Mapping[str, Any], played: Played) -> None:
    found = played.board.vars()
    for name, value in wanted.items():
        assert name in found, f"no variable {name!r}; there are {sorted(found)}"
        assert within(value, found[name]), f"{name}: wanted {value!r}, found {found[name]!r}"


def _absent(wanted: Sequence[str], played: Played) -> None:
    assert not (there := [name for name in wanted if name in played.board]), there


def _in_order(wanted: Sequence[str], played: Played) -> None:
    names = played.names()
    rest = iter(names)
    for name in wanted:
        assert name in rest, f"{name} does not come where it is wanted: {names}"


def _never(wanted: Sequence[str], played: Played) -> None:
    assert not (there := [name for name in wanted if name in played.names()]), there


def _counts(wanted: Mapping[str, int], played: Played) -> None:
    names = played.names()
    _equal(dict(wanted), {name: names.count(name) for name in wanted})


def _checkpoints(wanted: Sequence[Mapping[str, Any]], played: Played) -> None:
    found = [checkpoint.to_json() for checkpoint in played.host.checkpoints]
    _equal(len(wanted), len(found))
    for one, other in zip(wanted, found, strict=True):
        assert within(one, other), f"wanted {one}, found {other}"


def _deltas(wanted: Sequence[Mapping[str, Any]], played: Played) -> None:
    found = played.deltas()
    rest = iter(found)
    for one in wanted:
        assert any(within(one, delta) for delta in rest), f"{one} is not in {found}"


def _payloads(wanted: Sequence[tuple[str, Mapping[str, Any]]], played: Played) -> None:
    found = list(zip(played.names(), [payload for _, payload in played.host.events], strict=True))
    for name, fields in wanted:
        there = [payload for other, payload in found if other == name]
        assert any(within(fields, payload) for payload in there), f"{name}: wanted {fields}, found {there}"


def _warnings(wanted: Sequence[Sequence[str]], played: Played) -> None:
    assert played.built is not None
    found = [(w.kind, w.node_id) for w in played.built.warnings]
    assert not (lost := [pair for pair in wanted if tuple(pair) not in found]), f"{lost} not in {found}"


def _no_warnings(wanted: Sequence[str], played: Played) -> None:
    assert played.built is not None
    assert not (there := [str(w) for w in played.built.warnings if w.kind in wanted]), there


def _first_result(wanted: Mapping[str, Any], played: Played) -> None:
    result = played.board[wanted["key"]][0]
    text = "".join(part.get("text", "") for part in result["content"]["parts"])
    found = {"key": wanted["key"], **result, "text": text}
    assert within(wanted, found), f"wanted {wanted}, found {found}"


def _first_context(wanted: Sequence[str], played: Played) -> None:
    request = played.world.provider.requests[0]
    roles = [message.role for message in request.messages[:-1]]
    _equal(list(wanted), ["system", *roles] if request.system else roles)


def _second_input(wanted: str, played: Played) -> None:
    text = played.world.provider.requests[1].messages[-1].text
    assert wanted in text, text


def _cancelled(wanted: Sequence[str], played: Played) -> None:
    _equal(list(wanted), played.waves("join")[-1].get("cancelled", []))


def _seconds(wanted: float, played: Played) -> None:
    assert played.seconds < wanted, f"it took {played.seconds:.2f} s"


def _channel(wanted: Mapping[str, Sequence[str]], played: Played) -> None:
    for name, texts in wanted.items():
        _equal(list(texts), [spoken(message) for message in played.board.channel(name)])


CHECKS: Mapping[str, Callable[[Any, Played], None]] = {
    "error": _error,
    "build_error": _build_error,
    "vars": _vars,
    "absent": _absent,
    "main": lambda wanted, p: _equal(wanted, [spoken(m) for m in p.board.main]),
    "channels": _channel,
    "roles": lambda wanted, p: _equal(wanted, [m.role for m in p.board.main]),
    "last": lambda wanted, p: _equal(wanted, p.board.main[-1].text),
    "events": _in_order,
    "no_events": _never,
    "count_events": _counts,
    "checkpoints": _checkpoints,
    "checkpoint_count": lambda wanted, p: _equal(wanted, len(p.host.checkpoints)),
    "join_cancelled": _cancelled,
    "fork_ids": lambda wanted, p: _equal(wanted, [fork["fork_id"] for fork in p.waves("fork")]),
    "deltas": _deltas,
    "payloads": _payloads,
    "warnings": _warnings,
    "no_warnings": _no_warnings,
    "usage_reports": lambda wanted, p: _equal(wanted, len(p.host.usage)),
    "usage_total": lambda wanted, p: _equal(wanted, p.host.total),
    "executed": lambda wanted, p: _equal(wanted, p.world.executed),
    "attempts": lambda wanted, p: _equal(wanted, sum(p.world.attempts.values())),
    "ran": lambda wanted, p: _equal(wanted, "ran" in p.board),
    "max_seconds": _seconds,
    "result0": _first_result,
    "first_context_roles": _first_context,
    "second_input_contains": _second_input,
}
