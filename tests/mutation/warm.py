"""A pytest session that has collected the tests and stays warm: every mutant runs in a fork of it.

First all tests run once, in forks too, under coverage with one context per test: so it is known which tests
reach a line, and how long each takes. A mutant then runs only those, likely killers and cheap ones first,
until one fails.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import coverage
import pytest
from _pytest.runner import runtestprotocol
from coverage.exceptions import CoverageWarning

from tests.mutation.about import about
from tests.mutation.mutants import Mutant
from tests.mutation.swap import CannotSwap, functions, put

SECONDS_PER_TEST = 4.0
"""What a test may take beside ten times what it took: then it hangs, which kills the mutant."""
MEMORY = 3 << 30
STARTS = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec", "os.system")


@dataclass
class Known:
    """What is known of a test: how long it took, and whether it starts programs."""

    seconds: float = 0.0
    starts: bool = False
    failed: bool = False
    lines: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    loads: set[str] = field(default_factory=set[str])


@dataclass
class Verdict:
    """What became of a mutant."""

    file: str
    mark: str
    line: int
    function: str
    kind: str
    text: str
    status: str
    """killed, time (killed by a test that hung), survived, unreached or unseen (see `CannotSwap`)."""
    by: str = ""
    tests: int = 0
    left: int = 0
    """Tests that reach the line and were left out to keep within the time of one mutant."""
    seconds: float = 0.0

    @property
    def id(self) -> str:
        """That of the mutant."""
        return f"{self.file}:{self.line} {self.kind}: {self.text}"

    @property
    def is_dead(self) -> bool:
        return self.status in {"killed", "time"}


class Session:
    """The plugin that takes the place of running the tests."""

    def __init__(
        self,
        root: Path,
        mutants: Sequence[Mutant],
        *,
        each: float,
        seconds: float,
        out: Path,
        earlier: Sequence[Verdict],
    ) -> None:
        self.root = root
        self.mutants = mutants
        self.each = each
        self._end = time.monotonic() + seconds
        self.earlier = earlier
        self.out = out
        self.verdicts: list[Verdict] = []
        self._items: dict[str, pytest.Item] = {}
        self._known: dict[str, Known] = {}
        self._by_line: dict[tuple[str, int], list[str]] = {}
        self._by_file: dict[str, list[str]] = {}
        self._killers: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=8))
        self._often: dict[str, Counter[str]] = defaultdict(Counter)
        self._rare: dict[tuple[str, str], list[str]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        began = time.monotonic()
        say(f"{len(self._items)} tests collected; running each once")
        self._learn()
        say(f"took {time.monotonic() - began:.0f} s; {len(self.mutants)} mutants to go")
        self._alive = functions(self.root)
        self._kill_all()
        return True

    # which tests reach which lines

    def _learn(self) -> None:
        """Run the tests of files that have changed; what is known of the others is kept in a file."""
        place = self.out / "tests.pickle"
        kept: dict[str, tuple[dict[str, str], dict[str, Known]]] = {}
        with suppress(Exception):
            kept = pickle.loads(place.read_bytes())
        files: dict[str, list[str]] = defaultdict(list)
        for node in self._items:
            files[node.split("::")[0]].append(node)
        new = [file for file in files if file not in kept or not self._is_same(kept[file][0])]
        random.Random(1).shuffle(new)
        parts = [self.out / f"part{i}" for i in range(min(len(new), os.cpu_count() or 1))]
        pids = [self._forked_part(new[i :: len(parts)], files, part) for i, part in enumerate(parts)]
        for pid in pids:
            os.waitpid(pid, 0)
        for part in parts:
            known = pickle.loads(part.read_bytes())
            part.unlink()
            for file in {node.split("::")[0] for node in known}:
                there = {node: each for node, each in known.items() if node.split("::")[0] == file}
                reached = {file, *[each for one in there.values() for each in one.lines]}
                kept[file] = {each: digest([self.root / each]) for each in reached}, there
        place.write_bytes(pickle.dumps(kept))
        self._known = {
            node: kept[file][1][node] for file in files for node in files[file] if node in kept[file][1]
        }
        modules = {name for known in self._known.values() for name in known.loads}
        for name in sorted(modules):  # a fork then need not load it again
            with suppress(Exception):
                import_module(name)
        gc.collect()
        failed = {node for node, known in self._known.items() if known.failed}
        say(f"{len(failed)} tests fail without a mutant and are left out", *failed)
        by_line: dict[tuple[str, int], list[str]] = defaultdict(list)
        by_file: dict[str, list[str]] = defaultdict(list)
        for node in self._ordered(node for node in self._known if node not in failed):
            for file, lines in self._known[node].lines.items():
                by_file[file].append(node)
                for line in lines:
                    by_line[file, line].append(node)
        self._by_line, self._by_file = by_line, by_file
        for verdict in self.earlier:
            if verdict.by:
                self._remember(verdict.file, verdict.function, verdict.by)

    def _is_same(self, marks: Mapping[str, str]) -> bool:
        """Whether a file of tests and all that it reaches is as it was."""
        return all(
            (self.root / file).exists() and digest([self.root / file]) == mark for file, mark in marks.items()
        )

    def _forked_part(self, part: Sequence[str], files: Mapping[str, Sequence[str]], place: Path) -> int:
        if pid := os.fork():
            return pid
        try:
            self._prepare_child()
            known = self._measured([self._items[node] for file in part for node in files[file]])
            place.write_bytes(pickle.dumps(known))
        except BaseException as error:
            say(f"no baseline: {error!r}")
        finally:
            os._exit(0)

    def _measured(self, items: Sequence[pytest.Item]) -> dict[str, Known]:
        known = {item.nodeid: Known() for item in items}
        current = [Known()]

        def heard(event: str, _: object) -> None:
            if event in STARTS:
                current[0].starts = True

        sys.addaudithook(heard)
        folders = [str(self.root / "toolnexus" / folder / "*") for folder in ("engine", "runtime")]
        cover = coverage.Coverage(data_file=None, include=folders, config_file=False, messages=False)
        cover.start()
        for item, after in pairs(items):
            current[0] = known[item.nodeid]
            cover.switch_context(item.nodeid)
            began, loaded = time.process_time(), set(sys.modules)
            failed = not passes(item, after)
            current[0].seconds = time.process_time() - began
            current[0].failed = failed
            current[0].loads = {
                name for name in sys.modules if name not in loaded and not name.startswith(("tests", "__"))
            }
        cover.stop()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoverageWarning)  # nothing of it was reached
            data = cover.get_data()
        for file in data.measured_files():
            name = str(Path(file).relative_to(self.root))
            for line, nodes in data.contexts_by_lineno(file).items():
                for node in nodes:
                    if node:
                        known[node].lines.setdefault(name, set()).add(line)
        return known

    def _ordered(self, nodes: Iterable[str]) -> list[str]:
        """Cheap ones first, of many functions before many of one, those that start programs last."""
        seen: dict[str, int] = defaultdict(int)

        def place(node: str) -> tuple[bool, float]:
            known = self._known[node]
            name = node.partition("[")[0]
            file = node.partition("::")[0]
            seen[name] += 1
            seen[file] += 1
            return known.starts, (known.seconds + 0.005) * (1 + seen[name] / 4 + seen[file] / 4)

        nodes = sorted(nodes, key=lambda node: self._known[node].seconds)
        places = {node: place(node) for node in nodes}
        return sorted(nodes, key=places.__getitem__)

    # mutants

    def _tests_for(self, mutant: Mutant) -> tuple[list[str], int]:
        """The tests to run, and how many were left out."""
        if mutant.function:
            reach = self._by_line.get((mutant.file, mutant.line), [])
        else:
            reach = self._by_file.get(mutant.file, [])
        there = set(reach)
        often = [node for node, _ in self._often[mutant.file].most_common(25)]
        near = [*self._killers[f"{mutant.file}:{mutant.function}"], *often]
        topic = [node for node in reach if about(mutant.file, node.partition("::")[0])]
        first = [node for node in [*near, *self._rare_for(mutant), *topic] if node in there]
        tests: list[str] = []
        seconds = 0.0
        for node in dict.fromkeys([*first, *reach]):
            cost = self._known[node].seconds
            if seconds + cost > self.each and tests:
                continue
            seconds += cost
            tests.append(node)
        return tests, len(reach) - len(tests)

    def _rare_for(self, mutant: Mutant) -> list[str]:
        """The tests that reach what few reach of the function, and then of the file: they are about it."""
        found: list[str] = []
        for key in ((mutant.file, mutant.function), (mutant.file, "")):
            if key not in self._rare:
                lines = {
                    each.line
                    for each in self.mutants
                    if each.file == key[0] and key[1] in ("", each.function)
                }
                rows = sorted([self._by_line.get((mutant.file, line), []) for line in lines], key=len)
                self._rare[key] = list(dict.fromkeys([node for row in rows for node in row[:5]]))[:25]
            found += self._rare[key]
        return found

    def _kill_all(self) -> None:
        waiting = deque(self.mutants)
        running: dict[int, tuple[int, Mutant, int, Path]] = {}
        began = told = time.monotonic()
        with (self.out / "verdicts.jsonl").open("w") as log:
            for verdict in self.earlier:
                print(json.dumps(asdict(verdict)), file=log)
            while waiting or running:
                if time.monotonic() > self._end:
                    waiting.clear()
                while waiting and len(running) < (os.cpu_count() or 1):
                    mutant = waiting.popleft()
                    tests, left = self._tests_for(mutant)
                    if not tests:
                        self._note(log, mutant, "unreached")
                        continue
                    started = self._start(mutant, tests)
                    running[started[0]] = (started[1], mutant, left, started[2])
                if not running:
                    continue
                pid, status, used = os.wait4(-1, 0)
                if pid not in running:
                    continue
                fd, mutant, left, place = running.pop(pid)
                with os.fdopen(fd) as pipe:
                    said = pipe.read().splitlines()
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                shutil.rmtree(place, ignore_errors=True)
                self._judge(log, mutant, status, said, left, used.ru_utime + used.ru_stime)
                if time.monotonic() - told > 60:
                    told = time.monotonic()
                    self._tell(told - began)

    def _tell(self, seconds: float) -> None:
        done = [each for each in self.verdicts if each.status != "unseen"]
        dead = sum(each.is_dead for each in done)
        say(f"{seconds:.0f} s: {len(self.verdicts)} of {len(self.mutants)}, {dead} of {len(done)} killed")

    def _start(self, mutant: Mutant, tests: Sequence[str]) -> tuple[int, int, Path]:
        read, write = os.pipe()
        place = Path(tempfile.mkdtemp(prefix="mutant-"))
        if pid := os.fork():
            os.close(write)
            return pid, read, place
        try:
            self._prepare_child(place)
            os.close(read)
            with os.fdopen(write, "w", buffering=1) as told:
                print(self._run(mutant, tests, told), file=told)
        finally:
            os._exit(0)

    def _run(self, mutant: Mutant, tests: Sequence[str], told: Any) -> str:
        """What the child says last: a status."""
        signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_TEST * 2)
        try:
            put(mutant, self.root, self._alive)
        except CannotSwap:
            return "unseen"
        except Exception:
            return "killed"
        for item, after in pairs([self._items[node] for node in tests]):
            print(item.nodeid, file=told)
            if not passes(item, after, 10 * self._known[item.nodeid].seconds + SECONDS_PER_TEST):
                return "killed"
        return "survived"

    def _prepare_child(self, place: Path | None = None) -> None:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2) if place is not None else (0, 1):
            os.dup2(nowhere, fd)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        config: Any = next(iter(self._items.values())).config
        # forks share what the session has made: each needs a folder of its own
        config._tmp_path_factory._basetemp = (place or Path(tempfile.mkdtemp(prefix="mutants-"))).resolve()

    def _judge(
        self, log: Any, mutant: Mutant, status: int, said: Sequence[str], left: int, seconds: float
    ) -> None:
        ended = said[-1] if said and "::" not in said[-1] else "killed"
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
            ended = "time"
        tests = [line for line in said if "::" in line]
        by = tests[-1] if ended in {"killed", "time"} and tests else ""
        if by:
            self._remember(mutant.file, mutant.function, by)
        self._note(log, mutant, ended, by, len(tests), left, seconds)

    def _remember(self, file: str, function: str, by: str) -> None:
        """What killed one mutant is likely to kill its neighbours."""
        killers = self._killers[f"{file}:{function}"]
        if by in killers:
            killers.remove(by)
        killers.appendleft(by)
        self._often[file][by] += 1

    def _note(
        self,
        log: Any,
        mutant: Mutant,
        status: str,
        by: str = "",
        tests: int = 0,
        left: int = 0,
        seconds: float = 0,
    ) -> None:
        where = (
            mutant.file,
            digest([self.root / mutant.file])[:12],
            mutant.line,
            mutant.function,
            mutant.kind,
            mutant.text,
        )
        self.verdicts.append(Verdict(*where, status, by, tests, left, round(seconds, 3)))
        print(json.dumps(asdict(self.verdicts[-1])), file=log, flush=True)


def verdicts(out: Path) -> list[Verdict]:
    """What the last run has said, and those before it that it went on with: of each mutant the last."""
    lines = (out / "verdicts.jsonl").read_text().splitlines()
    return list({each.id: each for each in [Verdict(**json.loads(line)) for line in lines]}.values())


def passes(item: pytest.Item, after: pytest.Item | None, limit: float = 120.0) -> bool:
    """Run one test; a fork that is longer at it than `limit` seconds dies."""
    signal.setitimer(signal.ITIMER_REAL, limit)
    reports = runtestprotocol(item, log=False, nextitem=after)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return not any(report.failed for report in reports)


def digest(files: Iterable[Path]) -> str:
    """What changes when one of the files does."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def pairs(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Each with the one that comes after it."""
    for at, item in enumerate(items):
        yield item, items[at + 1] if at + 1 < len(items) else None


def say(*lines: str) -> None:
    """pytest has taken `sys.stderr`."""
    for line in lines:
        print(f"toolnexus: {line}", file=sys.__stderr__, flush=True)
