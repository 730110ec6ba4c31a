"""Blocking work in daemon threads."""

import asyncio
import contextvars
import functools
import gc
import logging
import sys
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from toolnexus.runtime.threads import ThreadPool, run_in_thread

pytestmark = pytest.mark.anyio


class Gate:
    """A call that says when it runs and stays until it is let go."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()

    def pass_through(self) -> str:
        self.entered.set()
        assert self.open.wait(20)
        return "through"

    async def wait_entered(self) -> None:
        while not self.entered.is_set():
            await asyncio.sleep(0)


@asynccontextmanager
async def held(pool: ThreadPool) -> AsyncGenerator[Gate]:
    """One thread of `pool` is busy meanwhile."""
    gate = Gate()
    task = asyncio.create_task(pool.run(gate.pass_through))
    await gate.wait_entered()
    try:
        yield gate
    finally:
        gate.open.set()
        assert await task == "through"


async def test_a_call_gives_its_value_or_raises_its_error() -> None:
    """[FN-30] Value and exception of the function come back as they are; it runs in a daemon thread."""

    def fail() -> None:
        raise KeyError("k")

    async with asyncio.timeout(20):
        assert await run_in_thread(divmod, 7, 2) == (3, 1)
        assert await run_in_thread(lambda: threading.current_thread().daemon)
        with pytest.raises(KeyError, match="k"):
            await run_in_thread(fail)


async def test_stop_iteration_becomes_a_runtime_error() -> None:
    """[FN-30] StopIteration, which no coroutine can raise, does not hang or vanish."""
    async with asyncio.timeout(20):
        with pytest.raises(RuntimeError, match="StopIteration") as caught:
            await run_in_thread(next, iter(()))
    assert isinstance(caught.value.__cause__, StopIteration)


async def test_context_variables_are_copied_into_the_thread() -> None:
    """[FN-30] The function sees the caller's context variables and cannot change them."""
    var: contextvars.ContextVar[int] = contextvars.ContextVar("var")
    var.set(1)

    def look() -> int:
        seen = var.get()
        var.set(2)
        return seen

    async with asyncio.timeout(20):
        assert await run_in_thread(look) == 1
    assert var.get() == 1


async def test_an_idle_thread_is_used_again_and_ends_after_a_while() -> None:
    """[FN-30] Calls in a row share one thread, which ends when it is idle for long enough."""
    pool = ThreadPool(idle=0.05)
    async with asyncio.timeout(20):
        first = await pool.run(threading.current_thread)
        second = await pool.run(threading.current_thread)
        assert first is second
        await asyncio.to_thread(first.join, 10)
        assert not first.is_alive()
        third = await pool.run(threading.current_thread)
    assert third is not first


async def test_live_threads_are_limited_and_the_rest_waits_its_turn() -> None:
    """[FN-30] Beyond the limit work queues, first come, first served."""
    pool = ThreadPool(limit=1)
    order: list[int] = []
    async with asyncio.timeout(20):
        async with held(pool):
            waiting = [asyncio.create_task(pool.run(order.append, n)) for n in range(5)]
            await asyncio.sleep(0)
            assert order == []
        await asyncio.gather(*waiting)
    assert order == [0, 1, 2, 3, 4]


async def test_as_many_calls_as_threads_run_at_once() -> None:
    """[FN-30] The limit is reached before anything queues."""
    pool = ThreadPool(limit=4)
    meeting = threading.Barrier(4)
    async with asyncio.timeout(20):
        places = await asyncio.gather(*(pool.run(meeting.wait, 10) for _ in range(4)))
    assert sorted(places) == [0, 1, 2, 3]


async def test_a_call_that_is_cancelled_while_it_waits_never_runs() -> None:
    """[FN-31] Cancelled in the queue: the function is not called, the others keep their turn."""
    pool = ThreadPool(limit=1)
    ran: list[str] = []
    async with asyncio.timeout(20):
        async with held(pool):
            given_up = asyncio.create_task(pool.run(ran.append, "given up"))
            kept = asyncio.create_task(pool.run(ran.append, "kept"))
            await asyncio.sleep(0)
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
        await kept
    assert ran == ["kept"]


async def test_a_call_that_is_given_up_while_it_runs_is_logged_without_its_arguments(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """[FN-32] Abandoned work is one warning with the name of the function and nothing else of it."""
    pool = ThreadPool()
    gate = Gate()

    def slow(secret: str) -> str:
        return gate.pass_through() + secret

    with caplog.at_level(logging.WARNING, logger="toolnexus.threads"):
        task = asyncio.create_task(pool.run(functools.partial(slow, "s3cret")))
        async with asyncio.timeout(20):
            await gate.wait_entered()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            gate.open.set()
            assert await pool.run(lambda: "still good") == "still good"
    assert len(caplog.records) == 1
    assert "slow" in caplog.text
    assert "s3cret" not in caplog.text


async def test_a_system_without_threads_is_an_error_and_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """[FN-30] When no thread can be started the call raises; with one alive the work waits for it."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool = ThreadPool()
    async with asyncio.timeout(20):
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                await pool.run(len, "")
        async with held(pool):
            monkeypatch.setattr(threading.Thread, "start", refuse)
            waiting = asyncio.create_task(pool.run(len, "abc"))
            await asyncio.sleep(0)
            assert not waiting.done()
        assert await waiting == 3


async def test_nothing_that_a_thread_worked_on_is_kept_alive() -> None:
    """[FN-30] An idle thread holds neither the arguments nor the result of its last call."""

    class Thing:
        pass

    pool = ThreadPool()
    thing = Thing()
    gone = weakref.ref(thing)
    async with asyncio.timeout(20):
        assert await pool.run(lambda t: t is not None, thing)
        del thing
        while gone() is not None:
            gc.collect()
            await asyncio.sleep(0)


def test_several_event_loops_use_the_pool_at_once() -> None:
    """[FN-33] Each result goes to the loop that waits for it."""
    pool = ThreadPool(limit=8)
    meeting = threading.Barrier(3)
    found: dict[int, tuple[int, bool]] = {}

    def work(n: int) -> int:
        meeting.wait(10)
        return n

    async def main(n: int) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(20):
            value = await pool.run(work, n)
        found[n] = (value, asyncio.get_running_loop() is loop)

    loops = [threading.Thread(target=asyncio.run, args=(main(n),)) for n in range(3)]
    for thread in loops:
        thread.start()
    for thread in loops:
        thread.join(30)
    assert found == {n: (n, True) for n in range(3)}


def test_a_result_for_a_closed_loop_is_dropped() -> None:
    """[FN-33] When the loop is gone meanwhile, the thread does not complain and goes on working."""
    pool = ThreadPool(limit=1)
    gate = Gate()

    async def leave() -> None:
        task = asyncio.create_task(pool.run(gate.pass_through))
        await gate.wait_entered()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(leave())
    gate.open.set()
    assert asyncio.run(pool.run(lambda: "next")) == "next"


def test_the_interpreter_exits_while_a_function_hangs(run_python: Callable[..., str]) -> None:
    """[FN-34] A hung sync tool never keeps the process alive."""
    program = (
        "import asyncio, threading\n"
        "from toolnexus.tools.function import tool\n"
        "from toolnexus.tools.toolkit import Toolkit\n"
        "started = threading.Event()\n"
        "@tool\n"
        "def hang():\n"
        "    started.set()\n"
        "    threading.Event().wait()\n"
        "async def main():\n"
        "    task = asyncio.create_task(Toolkit([hang]).execute('hang'))\n"
        "    while not started.is_set():\n"
        "        await asyncio.sleep(0)\n"
        "    task.cancel()\n"
        "asyncio.run(main())\n"
        "print('left')\n"
    )
    assert run_python(program) == "left\n"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_child_has_a_pool_of_its_own(run_python: Callable[..., str]) -> None:
    """[FN-33] After a fork the child starts without the threads it did not inherit."""
    program = (
        "import asyncio, os\n"
        "from toolnexus.runtime.threads import run_in_thread\n"
        "asyncio.run(run_in_thread(len, ''))\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    ok = asyncio.run(asyncio.wait_for(run_in_thread(len, 'abc'), 10)) == 3\n"
        "    os._exit(0 if ok else 1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    run_python(program)
