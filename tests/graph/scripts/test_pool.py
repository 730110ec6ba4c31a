"""Time, memory, and the life of the child processes."""

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.graph.scripts.world import LANGUAGES, SURFACE, World, alive, children, runtime, world
from toolnexus.graph.scripts import ScriptFailure
from toolnexus.graph.scripts.pool import PROGRAM

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("language", LANGUAGES)]

ENDLESS = {"js": "while (true) {}", "lua": "while true do end"}
STUCK = {
    "js": "const s = '\\u0344'.repeat(3e6); for (;;) s.normalize('NFD')",
    "lua": "string.rep('', 1e15)",
}


async def test_the_time_of_a_script_is_wall_time(language: str) -> None:
    """[GR-221] `max_exec_time` ends it as `timeout`, also while the host is at work; 0 is no limit."""
    ended: list[str] = []

    async def host(path: str, args: list[Any]) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(path)

    async with world(language, max_exec_time="100ms", grace=5) as w, asyncio.timeout(4):
        failure = await w.failure(ENDLESS)
        assert failure.kind == "timeout" and failure.message == "node: the script ran longer than 0.1 s"
        with pytest.raises(ScriptFailure) as caught:
            await w.runtime.exec("node", "board.getVar('x')", None, SURFACE, host)
        assert caught.value.kind == "timeout" and ended == ["board.getVar"]
        before = children()
        await w.run("return 1")
        assert children() == before  # both children were left in order
    async with world(language, max_exec_time=0) as w:
        assert await w.run("return 1") is None


async def test_a_timeout_of_the_host_is_its_own(language: str) -> None:
    """[GR-214] A `TimeoutError` of a host function is no timeout of the script."""

    async def host(path: str, args: list[Any]) -> Any:
        raise TimeoutError("of the host")

    async with world(language) as w:
        with pytest.raises(TimeoutError, match="of the host"):
            await w.runtime.exec("node", "board.getVar('x')", None, SURFACE, host)


async def test_what_cannot_be_interrupted_is_killed(language: str) -> None:
    """[GR-222] After `grace` the child is replaced, and the next script finds a new one."""
    async with world(language, max_exec_time=0.1, grace=0.1) as w, asyncio.timeout(4):
        await w.run("return 1")
        (first,) = children()
        started = time.monotonic()
        assert (await w.failure(STUCK)).kind == "timeout"
        assert time.monotonic() - started < 2
        assert not alive(first)
        await w.run("return 1")
        assert first not in children()


async def test_memory_is_bounded(language: str) -> None:
    """[GR-223] A script gets `memory_limit` bytes; past it, it fails, and its child goes on."""
    hog = {
        "js": "const a = []; for (;;) a.push('x'.repeat(1e5) + a.length)",
        "lua": "local t = {} while true do t[#t + 1] = string.rep('x', 1e5 | 0) .. #t end",
    }
    async with world(language, memory_limit=16 << 20) as w:
        failure = await w.failure(hog)
        assert failure.kind == "internal" and "memory" in failure.message
        (child,) = children()
        assert peak(child) < 16 + 40
        await w.run("return 1")
        assert children() == {child}
    async with world(language, memory_limit=48 << 20) as w:
        one = {"js": "const s = 'x'.repeat(2e7) + '!'", "lua": "local s = string.rep('x', 2e7 | 0) .. '!'"}
        assert await w.run(one) is None


def peak(pid: int) -> int:
    """The most memory that a process had, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) >> 10
    raise AssertionError("no such process")


async def test_calls_nest_as_deep_as_they_may(language: str) -> None:
    """[GR-224] `max_call_stack_size` bounds JavaScript; a script may catch the error, and Lua has its own."""
    deep = {
        "js": "let n = 0; const f = () => { n++; f() }; try { f() } catch (e) {} board.setVar('out', n)",
        "lua": "local n = 0 local function f() n = n + 1 return 1 + f() end pcall(f) board.setVar('out', n)",
    }
    if language == "lua":
        async with world(language) as w:
            assert 10_000 < await w.out(deep) < 1_000_000
        return
    for size in (100, 5000):
        async with world(language, max_call_stack_size=size) as w:
            assert 0.8 * size < await w.out(deep) < 1.3 * size


async def test_a_cancel_kills_the_child(language: str) -> None:
    """[GR-225] At once, in the middle of a script or of a host call; nobody else is touched."""
    async with world(language, max_exec_time=0, pool_size=2) as w, asyncio.timeout(5):
        await w.run("return 1")
        (idle,) = children()
        called = asyncio.Event()

        async def host(path: str, args: list[Any]) -> Any:
            called.set()
            if args[0] == "wait":
                await asyncio.Event().wait()

        for what in ("wait", "go on"):
            called.clear()
            source = f"board.getVar('{what}'); {ENDLESS[language]}"
            task = asyncio.create_task(w.runtime.exec("node", source, None, SURFACE, host))
            await called.wait()
            running = children()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not any(alive(pid) for pid in running)
            await w.run("return 1")
            assert idle not in children()
            (idle,) = children()


async def test_children_are_shared_and_bounded(language: str) -> None:
    """[GR-226] At most `pool_size` scripts of a loop run at once, the rest waits, untimed; children are used
    again."""
    at_once = most = 0
    gate = asyncio.Event()

    async def host(path: str, args: list[Any]) -> Any:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        if at_once == 2:
            gate.set()
        await gate.wait()
        await asyncio.sleep(0)
        at_once -= 1

    async with world(language, pool_size=2) as w, asyncio.timeout(10):
        await asyncio.gather(
            *[w.runtime.exec("node", "board.getVar('x')", None, SURFACE, host) for _ in range(8)]
        )
        assert most == 2 and len(children()) == 2


async def test_a_host_call_may_run_scripts_in_the_same_runtime(language: str) -> None:
    """[GR-227] Also when every place is taken by those who wait for it: each host call has its own places."""
    async with world(language, pool_size=1) as w, asyncio.timeout(20):
        most = 0

        async def host(path: str, args: list[Any]) -> Any:
            nonlocal most
            most = max(most, len(children()))
            if args[0] > 0:
                inner = (
                    w.runtime.exec("in", "board.getVar(config)", args[0] - 1, SURFACE, host) for _ in "ab"
                )
                await asyncio.gather(*inner)
            return args[0]

        assert await w.runtime.exec("node", "board.getVar(config)", 2, SURFACE, host) is None
        assert most == 3
        outer = (w.runtime.exec("node", "board.getVar(config)", 1, SURFACE, host) for _ in range(3))
        await asyncio.gather(*outer)
        assert most == 3 and len(children()) == 1


async def test_scripts_do_not_wait_for_scripts_without_end(language: str) -> None:
    """[GR-227] 8 deep at most."""
    if language == "js":  # the same for both
        return
    async with world(language, pool_size=1) as w, asyncio.timeout(20):
        depth = 0

        async def host(path: str, args: list[Any]) -> Any:
            nonlocal depth
            depth += 1
            await w.runtime.exec("node", "board.getVar('x')", None, SURFACE, host)

        with pytest.raises(ScriptFailure, match="8 deep") as caught:
            await w.runtime.exec("node", "board.getVar('x')", None, SURFACE, host)
        assert caught.value.kind == "not_available" and depth == 8


async def test_close_ends_everything(language: str) -> None:
    """[GR-228] Idle children and those at work; then `exec` is `not_available`. Closing twice is fine."""
    made = World(language, pool_size=2, max_exec_time=0)
    await made.run("return 1")
    busy = asyncio.create_task(made.failure(ENDLESS))
    called = asyncio.Event()

    async def host(path: str, args: list[Any]) -> Any:
        called.set()
        await asyncio.Event().wait()

    waiting = asyncio.create_task(made.runtime.exec("node", "board.getVar('x')", None, SURFACE, host))
    async with asyncio.timeout(5):
        await called.wait()
        started = children()
        assert len(started) == 2
        await made.runtime.close()
        assert not any(alive(pid) for pid in started)
        assert (await busy).kind == "not_available"
        assert (await made.failure("return 1")).kind == "not_available"
        await made.runtime.close()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert children() == set()


async def test_a_child_that_dies_is_a_failure_of_its_script_alone(language: str) -> None:
    """[GR-229] `internal`, with how it ended; an idle one that died is replaced unseen."""
    async with world(language, max_exec_time=0) as w, asyncio.timeout(5):

        async def host(path: str, args: list[Any]) -> Any:
            (child,) = children()
            os.kill(child, signal.SIGSEGV)
            while alive(child):
                await asyncio.sleep(0.001)

        with pytest.raises(ScriptFailure, match="exit -11") as caught:
            await w.runtime.exec("node", "board.getVar('x')", None, SURFACE, host)
        assert caught.value.kind == "internal"
        await w.run("return 1")
        (child,) = children()
        os.kill(child, signal.SIGKILL)
        while alive(child):
            await asyncio.sleep(0.001)
        assert await w.run("return 1") is None


def test_children_belong_to_an_event_loop(language: str) -> None:
    """[GR-230] One runtime serves several loops, also at once; no child outlives its loop."""
    made = runtime(language, pool_size=1)
    asked: list[str] = []

    async def host(path: str, args: list[Any]) -> Any:
        asked.append(path)

    async def one() -> None:
        async with asyncio.timeout(10):
            await made.exec("node", "board.getVar('x')", None, SURFACE, host)

    asyncio.run(one())
    gc.collect()
    assert children() == set()
    threads = [threading.Thread(target=asyncio.run, args=(one(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert children() == set() and len(asked) == 4
    asyncio.run(made.close())


PARENT = """
import asyncio, sys
from toolnexus.graph.scripts import JsRuntime, LuaRuntime

async def host(path, args):
    print("called", flush=True)

async def main():
    runtime = (JsRuntime if sys.argv[1] == "js" else LuaRuntime)(max_exec_time=0)
    await runtime.exec("node", "host.call(); " + sys.argv[2], None, {"host": ["call"]}, host)

asyncio.run(main())
"""


async def test_no_child_outlives_its_parent(language: str) -> None:
    """[GR-231] Also when the parent is killed, and the child is in an endless loop without a limit."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, language, ENDLESS[language]], stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"called\n"
    (pid,) = map(int, Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    async with asyncio.timeout(5):
        while Path(f"/proc/{pid}").exists() and alive(pid):
            await asyncio.sleep(0.005)


async def test_a_child_is_small_and_knows_nothing(language: str) -> None:
    """[GR-232] No environment, none of our packages, no files: an interpreter, the engine and one socket."""
    async with world(language) as w:
        await w.run("return 1")
        (child,) = children()
        assert Path(f"/proc/{child}/environ").read_bytes() == b""
        mapped = Path(f"/proc/{child}/maps").read_text()
        assert "pydantic" not in mapped and peak(child) < 40
        paths = {os.readlink(fd) for fd in Path(f"/proc/{child}/fd").iterdir()}
        assert all(p.startswith(("socket:", "pipe:", "/dev/null")) for p in paths), paths
        assert os.getpgid(child) == child
    read, write = os.pipe()
    settings = {"language": language, "libraries": libraries(language), "lifeline": read, "memory": 1 << 26}
    argv = [
        sys.executable,
        "-I",
        "-S",
        "-X",
        "importtime",
        str(PROGRAM),
        json.dumps({**settings, "stack": 9}),
    ]
    started = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, pass_fds=(read,)
    )
    os.close(read)
    os.close(write)
    imported = {line.rpartition("|")[2].strip() for line in started.stderr.splitlines()}
    assert "json" in imported
    assert not [n for n in imported if n.partition(".")[0] in ("toolnexus", "pydantic", "asyncio", "socket")]


def libraries(language: str) -> str:
    found = find_spec("jsbox" if language == "js" else "lupa")
    assert found is not None and found.origin is not None
    return str(Path(found.origin).parents[1])


@pytest.mark.parametrize("count", [30])
async def test_many_scripts_at_once_each_keep_their_own(language: str, count: int) -> None:
    """[GR-226] Results and errors never cross, however many run."""

    async def one(n: int) -> Any:
        seen: list[Any] = []

        async def host(path: str, args: list[Any]) -> Any:
            seen.append(args[0])
            return args[0]

        source = {
            "js": "for (let i = 0; i < 5; i++) board.getVar(config * 10 + i)",
            "lua": "for i = 0, 4 do board.getVar(config * 10 + i) end",
        }
        await w.runtime.exec(f"node {n}", source[language], n, SURFACE, host)
        return seen

    async with world(language, pool_size=3) as w, asyncio.timeout(20):
        got = await asyncio.gather(*[one(n) for n in range(count)])
        assert got == [[n * 10 + i for i in range(5)] for n in range(count)]
