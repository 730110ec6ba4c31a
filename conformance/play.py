"""Plays fixtures against this package through its public API: `python -m conformance.play [paths]`.

What it is: the interpreter of FORMAT.md for Python. What it is not: a way around the package; it
uses Client, Agent, Tool and FunctionModel like any host.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory

from conformance import describe
from conformance.compare import compare, difference, fits
from conformance.fixture import Data, FixtureError, find, load
from conformance.world import World, in_python, summary
from toolnexus import Agent, Budget, Client, ConfigError, RunResult, SkillDef, ToolnexusError

SECONDS = 10.0
"""A case that still waits after this time has failed."""


async def play(case: Data, *, seconds: float = SECONDS) -> World:
    """Play one case in an empty folder; the world holds what happened."""
    world = World(case)
    with TemporaryDirectory(prefix="conformance-") as name:
        folder = Path(name)
        try:
            async with asyncio.timeout(seconds):
                await _run(case, world, folder)
        except TimeoutError:
            gates = {name: f"{gate.came} of {gate.parties}" for name, gate in world.gates.items()}
            world.broken = f"still waiting after {seconds:g} s; came to gates: {gates}"
        except Exception as error:  # whatever a wrong implementation lets through
            world.broken = f"raised {error!r}"
        world.files = _texts(folder)
    return world


def _texts(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {f.relative_to(folder).as_posix(): f.read_text(encoding="utf-8") for f in files}


def mismatches(case: Data, world: World) -> Iterator[str]:
    """A line for every expectation of the case that does not hold."""
    expect: Data = case.get("expect", {})
    yield from compare(expect.get("buildError"), world.build_error, "expect.buildError")
    yield from compare(None, world.broken, "run")
    for asked in world.unanswered:
        yield difference("replies", f"one that fits {asked}", None)
    if world.build_error is None and world.broken is None:
        yield from compare([s.get("expect", {}) for s in case.get("run", ())], world.results, "run")
    for place, wanted in enumerate(expect.get("requests", ())):
        yield from _requests(wanted, world, f"expect.requests[{place}]")
    for name, wanted in expect.get("executed", {}).items():
        calls = summary(world.calls[name]) if name in world.calls else None
        number = not isinstance(wanted, dict)
        yield from compare({"count": wanted} if number else wanted, calls, f"expect.executed.{name}")
    yield from compare(expect.get("files", {}), world.files, "expect.files")


def _requests(expected: Data, world: World, where: str) -> Iterator[str]:
    chosen = [span for span in world.requests if fits(expected.get("of", {}), span.data)]
    if not chosen and expected.get("count") != 0:
        yield difference(f"{where}.of", expected.get("of", {}), "no such request")
    counted = {key: value for key, value in expected.items() if key not in ("of", "are")}
    yield from compare(counted, summary(chosen), where)
    for span in chosen:
        yield from compare(expected.get("are", {}), span.data, f"{where}.are ({span.data['path']})")


async def _run(case: Data, world: World, folder: Path) -> None:
    try:
        async with _client(case, world, folder) as client:
            for step in case.get("run", ()):
                world.results.append(await _ask(client, step, world))
    except ConfigError as error:
        world.build_error = str(error)


async def _ask(client: Client, step: Data, world: World) -> Data:
    try:
        result = await client.ask(step["ask"], conversation=step.get("conversation"))
    except ToolnexusError as error:
        result = error.result
        if not isinstance(result, RunResult):
            return {"error": str(error)}
    return describe.result(result, world.metadata)


def _client(case: Data, world: World, folder: Path) -> Client:
    options: Data = {"model": "scripted", **case.get("client", {})}
    if options.pop("answers", None) is not None:
        options["onRequest"] = world.answer
    if "allowedModels" in options:
        options["allowedModels"] = [world.model(name) for name in options["allowedModels"]]
    if "skills" in options:
        options["skills"] = [SkillDef(**skill) for skill in options["skills"]]
    agents = [Agent(**_keywords(spec, world)) for spec in case.get("agents", ())]
    return Client(
        **_keywords(options, world), tools=world.tools, agents=agents, hooks=[world], workdir=folder
    )


def _keywords(options: Data, world: World) -> Data:
    """Options that clients and agents share, as keyword arguments."""
    out = in_python(options)
    if "model" in out:
        out["model"] = world.model(out["model"])
    if "budget" in out:
        out["budget"] = Budget(**in_python(out["budget"]))
    if "should_continue" in out:
        out["should_continue"] = _in_turn(out["should_continue"])
    return out


def _in_turn(given: bool | list[bool]) -> Callable[[RunResult], bool]:
    """Gives these answers one by one, then no; a single one always."""
    answers = repeat(given) if isinstance(given, bool) else iter(given)
    return lambda _: next(answers, False)


def main(arguments: list[str] | None = None) -> int:
    """Play what is named, print a table, and return 0 when everything holds, 1 when not, 2 for a bad file."""
    parser = argparse.ArgumentParser(prog="python -m conformance.play", description="Play fixtures.")
    parser.add_argument(
        "paths", nargs="*", type=Path, help="files or folders; default: all of this repository"
    )
    try:
        files = [(path, load(path)) for path in find(parser.parse_args(arguments).paths)]
    except FixtureError as error:
        print(error, file=sys.stderr)
        return 2
    failed = sum([_report(path, case) for path, cases in files for case in cases])
    print(f"{sum(len(cases) for _, cases in files)} cases, {failed} failed")
    return 1 if failed else 0


def _report(path: Path, case: Data) -> bool:
    """Play one case and print its line, and below it what differs."""
    started = time.perf_counter()
    wrong = list(mismatches(case, asyncio.run(play(case))))
    took = (time.perf_counter() - started) * 1000
    print(f"{'FAILED' if wrong else 'ok':6}  {path.parent.name:20}  {took:5.0f} ms  {case['name']}")
    for line in wrong:
        print(f"        {os.path.relpath(path)}: {line}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
