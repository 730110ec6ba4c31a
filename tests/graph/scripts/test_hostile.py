"""Scripts that mean harm, as data: whatever they try, they end, and nothing else notices."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.graph.scripts.world import LANGUAGES, alive, children, runtime
from toolnexus.graph.scripts import Method, ScriptError, ScriptFailure, ScriptRuntime, Signal

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.exhaustive,
    pytest.mark.parametrize("language", LANGUAGES),
]

HOSTILE = Path(__file__).with_name("hostile")
SURFACE = {"host": ("echo", "fail", "leak", "after"), "runtime": (Method("execScript", "value, err"),)}
MEMORY = 32 << 20
MOST_MIB = 32 + 64
GRACE = 0.1
SLACK = 10.0
# Seconds for scripts of a kind. Those that run until they are stopped get little, those that must be
# stopped by something else get time for it.
LIMITS = {"loop": 0.04, "recursion": 0.04, "pattern": 0.04, "memory": 0.25}
ENOUGH = 20.0
AT_ONCE = 4
MOST_SECONDS = 0.05


def cases(language: str) -> list[tuple[str, str, dict[str, Any]]]:
    kinds = yaml.safe_load((HOSTILE / f"{language}.yaml").read_text())
    return [(kind, name, case) for kind, named in kinds.items() for name, case in named.items()]


@dataclass
class Watch:
    """What the scripts of one language did."""

    wrong: list[str] = field(default_factory=list[str])
    seen: dict[int, int] = field(default_factory=dict[int, int])
    """The most memory, in MiB, of every child."""

    async def children(self) -> None:
        while True:
            for pid in children():
                self.look(pid)
            await asyncio.sleep(0.05)

    def look(self, pid: int) -> None:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return
        for line in status.splitlines():
            if line.startswith("VmHWM"):
                self.seen[pid] = max(self.seen.get(pid, 0), int(line.split()[1]) >> 10)

    async def run(self, made: ScriptRuntime, label: str, case: dict[str, Any], limit: float) -> None:
        async def host(path: str, args: list[Any]) -> Any:
            if path == "host.fail":
                raise ScriptError(str(args[0]), "failed")
            if path != "host.echo":
                self.wrong.append(f"{label} reached {path}{args}")
            return args[0] if args else None

        started = time.monotonic()
        try:
            end = await made.exec("node", case["source"], {}, SURFACE, host)
            ended = "signal" if isinstance(end, Signal) else "done"
        except ScriptFailure as failure:
            ended = failure.kind
        took = time.monotonic() - started
        if ended not in case["ends"] and not (ended == "timeout" and limit < ENOUGH):
            self.wrong.append(f"{label} ended as {ended}")
        if took > limit + GRACE + SLACK:
            self.wrong.append(f"{label} took {took:.1f} s")


async def test_no_script_does_harm(language: str) -> None:
    """[GR-233] Endless loops, memory bombs, deep recursion, patterns, prototypes, ways out, caught signals:
    each ends in its time and memory, reaches nothing, and leaves no child."""
    watch = Watch()
    limits = {*LIMITS.values(), ENOUGH}
    made = {
        limit: runtime(language, max_exec_time=limit, grace=GRACE, memory_limit=MEMORY, pool_size=AT_ONCE)
        for limit in limits
    }
    places = asyncio.Semaphore(AT_ONCE)

    async def one(kind: str, name: str, case: dict[str, Any]) -> None:
        async with places:
            limit = LIMITS.get(kind, ENOUGH)
            await watch.run(made[limit], f"{language} {kind}/{name}", case, limit)

    watching = asyncio.create_task(watch.children())
    async with asyncio.timeout(120):
        await asyncio.gather(*[one(*case) for case in cases(language)])
        watching.cancel()
        for each in made.values():
            await each.close()
    assert watch.wrong == []
    assert watch.seen and max(watch.seen.values()) < MOST_MIB
    assert not any(alive(pid) for pid in watch.seen) and children() == set()


def test_there_are_scripts_of_every_kind(language: str) -> None:
    """[GR-233] At least six of each of seven kinds."""
    counted = Counter(kind for kind, _, _ in cases(language))
    assert len(counted) == 7 and min(counted.values()) >= 6 and sum(counted.values()) >= 45


LOUD = {
    "js": [
        "for (let i = 0; i < 300; i++) host.echo(i)",
        "const s = '\\n'.repeat(4e6); host.echo(s)",
        "host.echo(Array(40000).fill(1.5))",
        "host.echo(Array.from({ length: 10000 }, (_, i) => ({ i })))",
    ],
    "lua": [
        "for i = 1, 300 do host.echo(i) end",
        "host.echo(string.rep('\\n', 4000000))",
        "local t = {} for i = 1, 40000 do t[i] = 1.5 end host.echo(t)",
        "local t = {} for i = 1, 10000 do t[i] = {i = i} end host.echo(t)",
    ],
}
LARGEST = json.dumps("\n" * 4_000_000).encode()
ENDLESS = {
    "js": "for (;;) console.log('x'.repeat(1e5))",
    "lua": "while true do print(string.rep('x', 100000)) end",
}


def reading_takes() -> float:
    """The processor time of this thread for reading one of the largest messages, now: a busy machine makes it
    longer, as it does a round of the loop, which reads one at most."""
    before = time.thread_time()
    json.loads(LARGEST)
    return time.thread_time() - before


async def test_the_event_loop_goes_on(language: str) -> None:
    """[GR-234] No round of the loop works for 50 ms, whatever scripts compute, print and send."""
    longest = 0.0

    async def watch() -> None:
        # the processor time of this thread in one round: how busy the machine is does not matter
        nonlocal longest
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest = max(longest, now - last)
            last = now

    async def host(path: str, args: list[Any]) -> Any:
        return args[0]

    made, short = (runtime(language, max_exec_time=limit, pool_size=1) for limit in (5, 0.1))

    async def loud(source: str) -> None:
        await made.exec("node", source, {}, SURFACE, host)

    async def endless(source: str) -> None:
        with pytest.raises(ScriptFailure, match="ran longer"):
            await short.exec("node", source, {}, SURFACE, host)

    async def too_long(run: Callable[[str], Awaitable[None]], source: str) -> float | None:
        """The longest round, if it was one too long for this machine as busy as it is."""
        nonlocal longest
        longest = 0.0
        await run(source)
        took = longest
        return took if took > max(MOST_SECONDS, 2.5 * reading_takes()) else None

    watching = asyncio.create_task(watch())
    async with asyncio.timeout(60):
        worst = {source: await too_long(loud, source) for source in LOUD[language]}
        worst[ENDLESS[language]] = await too_long(endless, ENDLESS[language])
    watching.cancel()
    await made.close()
    await short.close()
    assert {source: took for source, took in worst.items() if took is not None} == {}
