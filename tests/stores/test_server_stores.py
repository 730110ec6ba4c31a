"""PostgresStore and RedisStore on real servers: the contract of every store, and what a network adds."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.stores.places import Place, PostgresPlace, RedisPlace
from tests.stores.servers import ESCAPED, PASSWORD
from toolnexus import ConfigError, PostgresStore, RedisStore, Store, StoreConflict, StoreError, user
from toolnexus.testing.contracts import StoreSuite

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]

STORES: dict[str, Any] = {"postgres": PostgresStore, "redis": RedisStore}


class TestPostgresStore(StoreSuite):
    place: PostgresPlace

    @pytest.fixture(autouse=True)
    def _place(self, postgres: PostgresPlace) -> None:
        self.place = postgres

    def make_store(self) -> Store:
        return self.place.make()


class TestRedisStore(StoreSuite):
    place: RedisPlace

    @pytest.fixture(autouse=True)
    def _place(self, redis: RedisPlace) -> None:
        self.place = redis

    def make_store(self) -> Store:
        return self.place.make()


@asynccontextmanager
async def opened(place: Place, port: int | None = None) -> AsyncGenerator[Any]:
    store = place.make(port)
    async with asyncio.timeout(60):
        try:
            yield store
        finally:
            await store.aclose()


def test_one_store_serves_many_loops_and_threads(place: Place) -> None:
    """[ST-50] One loop after the other, and several at once in threads; every append arrives once."""
    store = place.make()
    version = 0
    for n in range(3):
        version = asyncio.run(store.append("c", [user(str(n))], version))

    async def write(writer: int) -> None:
        for n in range(5):
            while True:
                _, version = await store.load("shared")
                with suppress(StoreConflict):
                    await store.append("shared", [user(f"{writer}.{n}")], version)
                    break

    threads = [threading.Thread(target=asyncio.run, args=(write(w),)) for w in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    messages, _ = asyncio.run(store.load("c"))
    shared, _ = asyncio.run(store.load("shared"))
    asyncio.run(store.aclose())
    assert [m.text for m in messages] == ["0", "1", "2"]
    assert sorted(m.text for m in shared) == sorted(f"{w}.{n}" for w in range(3) for n in range(5))


async def test_torn_records_are_set_aside_and_reported(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """[ST-51] Unchanged, and once; the rest loads. A torn state is none, and said."""
    async with opened(place) as store:
        version = await store.append("c", [user("one")], 0)
        torn = [b'{"v":1,"role":"us', b'{"v":99,"role":"user","parts":[]}', b"5"]
        place.tear("c", torn)
        assert await store.load("c") == ((user("one"),), version)
        assert [problem.id for problem in store.problems] == ["c"] * 3
        assert sorted(place.set_aside("c")) == sorted(torn)
        assert await store.load("c") == ((user("one"),), version) and len(store.problems) == 3
        assert await store.load_state("c") is None and "is torn" in caplog.text
        assert await store.append("c", [user("two")], version) != version
        await store.replace("c", [], (await store.load("c"))[1])
        assert place.set_aside("c") == []


async def test_a_lost_connection_is_made_anew(place: Place) -> None:
    """[ST-52] Cut by the server, between two calls and in the middle of many."""
    async with opened(place) as store:
        await asyncio.gather(*(store.append(f"c{n}", [user("one")], 0) for n in range(20)))
        place.end_connections()
        _, version = await store.load("c1")
        place.end_connections()
        await store.append("c1", [user("two")], version)
        assert [m.text for m in (await store.load("c1"))[0]] == ["one", "two"]


async def test_a_server_that_is_away_is_an_error_and_it_goes_on_when_that_is_back(
    place: Place,
) -> None:
    """[ST-52] A `StoreError` that names the server; the same object goes on afterwards."""
    async with opened(place) as store:
        version = await store.append("c", [user("one")], 0, {"n": 1})
        place.server.stop()
        try:
            for doing in (store.load("c"), store.append("c", [user("lost")], version), store.load_state("c")):
                with pytest.raises(StoreError, match=f":{place.server.port}/") as raised:
                    await doing
                assert PASSWORD not in str(raised.value)
        finally:
            place.server.start()
        assert await store.load("c") == ((user("one"),), version)
        assert await store.load_state("c") == {"n": 1}


class Swallows:
    """A way to a server that loses the answer to the first message with `mark` in it, and the connection."""

    def __init__(self, port: int, mark: bytes) -> None:
        self._port, self._mark = port, mark
        self.lost = 0
        self._ways = set[asyncio.Task[Any]]()

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        while self._ways:
            await asyncio.wait(self._ways)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._ways.add(task)
        above, out = await asyncio.open_connection("127.0.0.1", self._port)
        losing = False

        async def up() -> None:
            nonlocal losing
            while data := await reader.read(65536):
                losing = losing or (self._mark in data and not self.lost)
                out.write(data)

        async def down() -> None:
            while data := await above.read(65536):
                if losing:
                    self.lost += 1
                    return
                writer.write(data)

        ways = [asyncio.ensure_future(up()), asyncio.ensure_future(down())]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (out, writer):
            end.close()
            with suppress(OSError):
                await end.wait_closed()
        self._ways.discard(task)


async def test_a_write_whose_answer_is_lost_happens_once(place: Place) -> None:
    """[ST-53] It is asked for again on a new connection, and the server finds that it is there."""
    async with opened(place) as first:
        await first.load("c")
    way = Swallows(place.server.port, place.writes)
    async with way as port, opened(place, port) as store:
        version = await store.append("c", [user("one")], 0, {"n": 1})
        assert way.lost == 1
        assert await store.load("c") == ((user("one"),), version)
        assert await store.load_state("c") == {"n": 1}
        with pytest.raises(StoreConflict):
            await store.append("c", [user("one")], 0)


async def test_a_store_touches_nothing_before_its_first_use_and_tries_again(place: Place) -> None:
    """[ST-54] Where nobody listens the first call is a `StoreError`; closing an unused store is free."""
    threads = threading.active_count()
    store = place.make(1)
    await store.aclose()
    assert threading.active_count() == threads
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:1/"):
        await store.load("c")
    await store.aclose()
    async with opened(place) as other:
        version = await other.append("c", [user("one")], 0)
        await other.aclose()
        assert await other.load("c") == ((user("one"),), version)
    assert threading.active_count() == threads


async def test_no_password_is_shown(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """[ST-55] Not in errors, with what led to them, not in the log at DEBUG, not in `repr`."""
    caplog.set_level(logging.DEBUG)
    async with opened(place) as store:
        await store.load("c")
        seen = [repr(store), store.where]
    wrong = place.wrong()
    with pytest.raises(StoreError) as raised:
        await wrong.load("c")
    await wrong.aclose()
    error: BaseException | None = raised.value
    while error is not None:
        seen.append(repr(error))
        error = error.__cause__ or error.__context__
    text = "\n".join(seen) + caplog.text
    for secret in (PASSWORD, ESCAPED, "not-the-word"):
        assert secret not in text


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        *[("postgres", text) for text in ("", "postgresql://a:sEcret@[/x", "host=a sEcret", "%sEcret", 5)],
        *[("postgres", f"postgresql://a:{pa}/sEcret@h/db") for pa in ("pa", "12")],
        *[("postgres", text) for text in ("postgresql://a@h/db?sEcret=1", "sEcret\ud800")],
        *[("redis", text) for text in ("", "sEcret", "http://a:sEcret@h", "redis://a:b/sEcret@h/0", 5)],
        *[("redis", f"redis://{text}") for text in ("a:sEcret@h:x/0", "a:12/sEcret@h/0", "h/0?sEcret=1")],
    ],
)
def test_what_is_no_address_is_refused_without_repeating_it(kind: str, address: Any) -> None:
    """[ST-55] A `ConfigError` where the store is made; a slip in a password shows none of it."""
    with pytest.raises(ConfigError, match=r"Store: give an address '") as raised:
        STORES[kind](address)
    assert "sEcret" not in str(raised.value) and raised.value.__cause__ is None
    assert raised.value.__context__ is None


@pytest.mark.parametrize(("kind", "driver"), [("postgres", "psycopg"), ("redis", "redis")])
def test_a_missing_driver_names_the_extra(kind: str, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """[ST-56] A `ConfigError` where the store is made."""
    for name in [name for name in sys.modules if name.partition(".")[0] == driver]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"pip install '\.\[{kind}\]' in its clone"):
        STORES[kind]("redis://h")


async def test_what_a_later_release_wrote_is_left_alone(place: Place) -> None:
    """[ST-57] A `StoreError` that says which format it is."""
    async with opened(place) as store:
        await store.append("c", [user("one")], 0)
        place.of_later_release()
        async with opened(place) as later:
            with pytest.raises(StoreError, match=r"(has|have) format .*99.*this release reads"):
                await later.append("c", [], 0)


async def test_a_database_of_another_encoding_is_refused(postgres: PostgresPlace) -> None:
    """[ST-57] With a word about which one it must be."""
    postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    store = PostgresStore(postgres.address.replace("/postgres?", "/latin?"))
    with pytest.raises(StoreError, match="has encoding LATIN1; a store needs one with UTF8"):
        await store.load("c")
    await store.aclose()


async def test_a_cancelled_writer_is_free_at_once_and_the_write_is_whole(postgres: PostgresPlace) -> None:
    """[ST-58] The server holds the row, so the write has begun and cannot end."""
    import psycopg

    async with opened(postgres) as store:
        version = await store.append("c", [user("one")], 0)
        with psycopg.connect(postgres.address) as other:
            other.execute("SELECT * FROM toolnexus_conversations FOR UPDATE")
            begun = asyncio.create_task(store.append("c", [user("two"), user("three")], version))
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            while not (await asyncio.to_thread(postgres.execute, waits))[0][0]:
                await asyncio.sleep(0)
            begun.cancel()
            with pytest.raises(asyncio.CancelledError):
                await begun
            other.commit()
        await store.aclose()  # finishes what has begun
        assert [m.text for m in (await store.load("c"))[0]] == ["one", "two", "three"]


async def test_a_store_that_is_dropped_unclosed_warns_and_ends_its_thread(place: Place) -> None:
    """[ST-58] Forgetting `aclose` is a `ResourceWarning`, not a leaked thread."""
    before = set(threading.enumerate())
    store = place.make()
    await store.append("c", [user("one")], 0)
    (mine,) = set(threading.enumerate()) - before
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del store
        gc.collect()
    assert [w for w in caught if w.category is ResourceWarning and "never closed" in str(w.message)]
    await asyncio.to_thread(mine.join, 10)
    assert not mine.is_alive()


FORKER = """
import asyncio, os, sys
from toolnexus import user, PostgresStore, RedisStore
store = {"p": PostgresStore, "r": RedisStore}[sys.argv[1][0]](sys.argv[1])
version = asyncio.run(store.append("forked", [user("parent")], 0))
child = os.fork()
if child == 0:
    asyncio.run(asyncio.wait_for(store.append("forked", [user("child")], version), 20))
    asyncio.run(store.aclose())
    os._exit(0)
_, status = os.waitpid(child, 0)
messages, version = asyncio.run(store.load("forked"))
asyncio.run(store.replace("forked", [], version))
asyncio.run(store.aclose())
print(status, [m.text for m in messages])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_process_gets_connections_of_its_own(place: Any) -> None:
    """[ST-58] A store that was used before a fork works in the child and still in the parent."""
    options = [
        "-W",
        "error::ResourceWarning",
        "-W",
        "ignore::DeprecationWarning:__main__",
    ]  # of fork with threads
    command = [sys.executable, *options, "-c", FORKER, place.address]
    out = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (out.stdout, out.stderr) == ("0 ['parent', 'child']\n", "")
