"""One SQLite file under many real processes, some of which die."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.warm import Piped, Warm
from toolnexus.core.messages import user
from toolnexus.stores.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]

WRITER = """
import asyncio, sys
from toolnexus.core.messages import assistant, user
from toolnexus.errors import StoreConflict
from toolnexus.stores.sqlite import SqliteStore

async def main(path, writer, turns):
    store = SqliteStore(path)
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(turns):
        for conversation in ("shared", f"own-{writer}"):
            while True:
                _, version = await store.load(conversation)
                pair = [user(f"q {writer} {turn}"), assistant(f"a {writer} {turn} " + "x" * 500)]
                try:
                    await store.append(conversation, pair, version)
                    break
                except StoreConflict:
                    continue
        print(turn, flush=True)
    await store.aclose()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""

FORKER = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[1])
from toolnexus.core.messages import user
from toolnexus.stores.sqlite import SqliteStore

store = SqliteStore(sys.argv[2])
version = asyncio.run(store.append("c", [user("parent")], 0))
child = os.fork()
if child == 0:
    asyncio.run(asyncio.wait_for(store.append("c", [user("child")], version), 20))
    asyncio.run(store.aclose())
    os._exit(0)
_, status = os.waitpid(child, 0)
messages, _ = asyncio.run(store.load("c"))
asyncio.run(store.aclose())
print(status, [m.text for m in messages])
"""


def start(warm: Warm, path: Path, writer: int, turns: int) -> Piped:
    process = warm.piped(WRITER, str(path), str(writer), str(turns))
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: Piped) -> int:
    with process:
        return process.wait(120)


async def texts(store: SqliteStore, conversation: str) -> list[str]:
    messages, _ = await store.load(conversation)
    return [" ".join(m.text.split()[:3]) for m in messages]


async def test_eight_processes_on_one_new_file_lose_and_tear_no_turn(warm: Warm, tmp_path: Path) -> None:
    """[ST-40] Eight processes make the same file at once and write to one conversation and to their
    own: every turn is there once, whole and in order of its writer."""
    path, turns = tmp_path / "s.db", 15
    processes = await asyncio.to_thread(lambda: [start(warm, path, n, turns) for n in range(8)])
    for process in processes:
        process.put("")
    codes = [await asyncio.to_thread(end, p) for p in processes]
    assert codes == [0] * 8
    store = SqliteStore(path)
    shared = await texts(store, "shared")
    assert len(shared) == 8 * turns * 2
    for question, answer in zip(shared[::2], shared[1::2], strict=True):
        assert question[0] == "q"
        assert answer == "a" + question[1:]
    for n in range(8):
        expected = [f"q {n} {turn}" for turn in range(turns)]
        assert [t for t in shared if t.startswith(f"q {n} ")] == expected
        assert (await texts(store, f"own-{n}"))[::2] == expected
    assert store.problems == []
    await store.aclose()


async def test_a_killed_writer_leaves_a_store_that_others_read_and_write(warm: Warm, tmp_path: Path) -> None:
    """[ST-41] `kill -9` in the middle of writing: what was reported as written is there, no turn is
    half there, and the next process goes on."""
    path = tmp_path / "s.db"
    process = await asyncio.to_thread(start, warm, path, 0, 100_000)
    process.put("")
    assert process.stdout is not None
    lines = process.stdout
    async with asyncio.timeout(60):
        while await asyncio.to_thread(lines.readline) != "30\n":
            pass
    process.send_signal(signal.SIGKILL)
    rest = await asyncio.to_thread(lines.read)
    reported = [30, *(int(line) for line in rest.split("\n")[:-1])]
    assert await asyncio.to_thread(end, process) == -signal.SIGKILL
    store = SqliteStore(path)
    messages, version = await store.load("shared")
    assert len(messages) % 2 == 0
    assert len(messages) // 2 > reported[-1]
    assert [m.text for m in messages[::2]] == [f"q 0 {n}" for n in range(len(messages) // 2)]
    assert await store.append("shared", [user("goes on")], version) > version
    assert store.problems == []
    await store.aclose()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_process_gets_a_connection_of_its_own(tmp_path: Path) -> None:
    """[ST-42] A store that was used before a fork works in the child and still in the parent."""
    command = [sys.executable, "-W", "ignore", "-c", FORKER, str(ROOT), str(tmp_path / "s.db")]
    out = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert out.stderr == ""
    assert out.stdout == "0 ['parent', 'child']\n"


def test_an_interpreter_with_an_unclosed_store_ends_at_once(tmp_path: Path) -> None:
    """[ST-43] The store's thread never holds the exit of the interpreter."""
    code = (
        "import asyncio, sqlite3, sys; sys.path.insert(0, sys.argv[1])\n"
        "from toolnexus.core.messages import user\n"
        "from toolnexus.stores.sqlite import SqliteStore\n"
        "store = SqliteStore(sys.argv[2])\n"
        "asyncio.run(store.append('c', [user('x')], 0))\n"
        "lock = sqlite3.connect(sys.argv[2], isolation_level=None); lock.execute('BEGIN IMMEDIATE')\n"
        "async def main():\n"
        "    asyncio.create_task(store.append('c', [user('y')], 1)); await asyncio.sleep(0.1)\n"
        "asyncio.run(main()); print('end')\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(ROOT), str(tmp_path / "s.db")]
    out = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert (out.stdout, out.returncode) == ("end\n", 0)
