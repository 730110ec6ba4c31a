"""Plays cases: graphs as data, with what must come of them. The format is in conformance/graph/README.md."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from tests.graph.acceptance.checks import CHECKS, Played, check
from tests.graph.acceptance.node_types import said
from tests.graph.acceptance.world import AGENT, RUN, Host, World, host_of
from toolnexus import graph
from toolnexus.core.messages import ToolCallPart, assistant, user

LONGEST = 20
"""Seconds that a case may take."""
Case = Mapping[str, Any]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast where PyYAML has its C part."""
CASE = frozenset(
    ("id", "split", "about", "graph", "inputs", "build", "host", "world", "resume_from", "expect")
)


def cases_of(path: Path) -> list[Case]:
    """The cases of a YAML file, or of all of a folder."""
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return [case for file in files for case in yaml.load(file.read_text(), LOADER)]


def rows_of(case: Case) -> Iterator[tuple[str, Case]]:
    """A case as plain cases, one for each row of its tables, with their names."""
    plain = {key: value for key, value in case.items() if not key.endswith("table")}
    tables = {"table": _changed, "build_table": _document, "resume_table": _checkpoint}
    found = [name for name in tables if name in case]
    if not found:
        yield case["id"], plain
    for name in found:
        for n, row in enumerate(case[name]):
            yield f"{case['id']}-{n}", tables[name](plain, row)


def _document(case: dict[str, Any], document: Any) -> Case:
    return {**case, "graph": document}


def _checkpoint(case: dict[str, Any], row: Mapping[str, Any]) -> Case:
    return {**case, "resume_from": row["cp"], "expect": {**case["expect"], **_outcome(row["kind"])}}


def _outcome(kind: str | None) -> dict[str, Any]:
    return {} if kind is None else {"error": {"kind": kind}}


def _changed(case: dict[str, Any], row: Mapping[str, Any]) -> Case:
    """The case with the first node as a row wants it, and what the row expects."""
    out = {**case, "expect": {**case["expect"]}}
    if "cond" in row:
        out["graph"] = _conditional(row["cond"])
    node = dict(out["graph"]["nodes"][0])
    config = dict(row.get("config", node.get("config") or {}))
    for key, value in row.items():
        if key in CHECKS:
            out["expect"][key] = value
        elif key in ("inputs", "build", "host", "world"):
            out[key] = {**case.get(key, {}), **value}
        elif key in ("steer", "provider"):
            where = "host" if key == "steer" else "world"
            out[where] = {**case.get(where, {}), key: value}
        elif key == "kind":
            out["expect"].update(_outcome(value))
            if node["type"] == "fail":
                config["kind"] = value
        elif key == "type":
            node["type"] = value
        elif key in ("runtime", "source"):
            config[key] = value
        elif key == "policy":
            config.update({} if value is None else {"stream_failure_policy": value})
        elif key not in ("config", "cond"):
            raise KeyError(f"{case['id']}: a row with {key!r}")
    out["graph"] = {**out["graph"], "nodes": [{**node, "config": config}, *out["graph"]["nodes"][1:]]}
    return out


def _conditional(condition: str) -> dict[str, Any]:
    nodes = [{"id": "a", "type": "set"}, {"id": "b", "type": "set", "config": {"vars": {"ran": True}}}]
    return {
        "name": "g",
        "entry": "a",
        "nodes": nodes,
        "edges": [{"from": "a", "to": "b", "condition": condition}],
    }


async def play(case: Case) -> None:
    """Play one plain case. Raises `AssertionError` with what is not as the case wants it."""
    if unknown := case.keys() - CASE:
        raise KeyError(f"{case['id']}: unknown keys {sorted(unknown)}")
    expect = dict(case["expect"])
    resume: Mapping[str, Any] | None = expect.pop("resume", None)
    run = expect.pop("run", True)
    world = World(case.get("world") or {})
    try:
        async with asyncio.timeout(LONGEST):
            point = _point(case.get("resume_from"))
            played = await _once(case, world, host_of(case.get("host") or {}), point, run=run)
            check(expect, played)
            if resume is not None:
                last = played.host.checkpoints[-1]
                again = await _once(
                    {**case, "inputs": {}}, world, host_of({}), last, run=True, built=played.built
                )
                check(resume, again)
    finally:
        await world.close()


async def _once(
    case: Case,
    world: World,
    host: Host,
    point: graph.Checkpoint | None,
    *,
    run: bool,
    built: graph.Graph | None = None,
) -> Played:
    began = time.monotonic()
    board = _board(case.get("inputs") or {})
    error = None
    try:
        built = built or _built(case, world)
        if run:
            await built.run(board, host=host, run_id=RUN, agent_id=AGENT, resume_from=point)
    except (graph.GraphError, graph.GraphRunError) as failure:
        error = failure
    return Played(built, board, host, world, time.monotonic() - began, error)


def _built(case: Case, world: World) -> graph.Graph:
    build = dict(case.get("build") or {})
    if "retry_unit" in build:
        build["retry_backoff"] = build.pop("retry_unit")
    definition = graph.GraphDefinition.from_data(case["graph"])
    runtimes = [node.config.get("runtime") for node in definition.nodes if node.type == "script"]
    name = next((runtime for runtime in runtimes if runtime in ("js", "lua")), "js")
    return graph.build(definition, world.registry, graph.BuildOptions(**build), script_runtime_name=name)


def _board(inputs: Mapping[str, Any]) -> graph.Board:
    board = graph.Board(vars=inputs.get("vars"))
    board.append("", *[said(text) for text in inputs.get("main") or ()])
    if calls := cast("list[Mapping[str, str]]", inputs.get("calls") or []):
        parts = [ToolCallPart(call["id"], call["name"], call.get("arguments", "{}")) for call in calls]
        board.append("", user("go"), assistant("", *parts))
    return board


def _point(data: Mapping[str, Any] | None) -> graph.Checkpoint | None:
    return None if data is None else graph.Checkpoint.from_json(data)
