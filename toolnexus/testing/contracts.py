"""Contract suites: what every implementation of a port must do, as tests to inherit.

A suite needs no test framework: its tests are coroutine methods named `test_…` that assert. With
pytest, subclass it, implement the factory and mark the module for your async plugin.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager

from toolnexus.core.messages import (
    MediaPart,
    Message,
    OpaquePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    user,
)
from toolnexus.errors import StoreConflict, StoreError
from toolnexus.stores.base import Store

ORIGIN = "anthropic:api.example.com"

EVERY_PART: tuple[Message, ...] = (
    user(
        [
            TextPart("look at these"),
            MediaPart("image/png", data="iVBORw0KGgo="),
            MediaPart("application/pdf", url="https://example.com/a%20b.pdf", name="a b.pdf"),
        ]
    ),
    Message(
        "assistant",
        (
            ReasoningPart("first think", ORIGIN, {"signature": "EqQB+/8="}),
            OpaquePart(ORIGIN, {"type": "redacted_thinking", "data": "x/y+z=="}),
            TextPart("then ", {"citations": [{"start": 0, "end": 4}]}),
            ToolCallPart("call_1", "read", '{"path": "a.txt"}', {"thought_signature": "abc="}),
            ToolCallPart("call_2", "bash", '{"command": '),
        ),
        origin=ORIGIN,
        extra={"reasoning_content": None, "nested": {"list": [1, 2.5, True, None, ""]}},
    ),
    Message(
        "tool",
        (
            ToolResultPart("call_1", "text", media=(MediaPart("image/png", data="AA=="),)),
            ToolResultPart("call_2", "", is_error=True),
        ),
    ),
    Message("assistant", ()),
)
"""A transcript with every kind of part and every optional field."""

AWKWARD_TEXT = "líne\r\n\ttab \0 nul \u2028 sep 你好 👩‍👩‍👧 \U0001f600 lone \ud83d end \\u0041 \"'"
AWKWARD_IDS = (
    "../../etc/passwd",
    "/absolute",
    "C:\\x",
    "a'; DROP TABLE messages; --",
    "%",
    "_",
    "",
    " ",
    "a",
    "A",
    "a\0b",
    "é",
    "e\u0301",
    "\ud800",
    "x" * 5000,
)


class StoreSuite(ABC):
    """What a conversation store must do. `make_store` gives a new and empty one for each test."""

    timeout: float = 60.0
    """Seconds that one test may take."""

    @abstractmethod
    def make_store(self) -> Store:
        """A store without any conversation."""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Store]:
        """A new store for one test, closed after it."""
        async with asyncio.timeout(self.timeout):
            store = self.make_store()
            try:
                yield store
            finally:
                await store.aclose()

    async def test_a_conversation_that_nobody_wrote_is_empty_at_version_0(self) -> None:
        """[ST-01] Loading an unknown id gives no messages and version 0."""
        async with self.opened() as store:
            assert await store.load("nobody") == ((), 0)

    async def test_appended_messages_come_back_in_order_with_the_version_returned(self) -> None:
        """[ST-02] `append` returns the version that `load` then gives, with all messages in order."""
        async with self.opened() as store:
            first = await store.append("c", [user("one"), assistant("two")], 0)
            second = await store.append("c", [user("three")], first)
            assert first != 0
            assert second != first
            messages, version = await store.load("c")
            assert [m.text for m in messages] == ["one", "two", "three"]
            assert version == second

    async def test_a_stale_append_conflicts_and_writes_nothing(self) -> None:
        """[ST-03] A version that is no longer current raises `StoreConflict` with the current one."""
        async with self.opened() as store:
            version = await store.append("c", [user("one")], 0)
            for stale in (0, version + 1):
                assert await conflict_of(store.append("c", [user("lost")], stale)) == version
            assert await conflict_of(store.append("new", [user("lost")], 7)) == 0
            assert await store.load("c") == ((user("one"),), version)
            assert await store.load("new") == ((), 0)

    async def test_appending_nothing_changes_nothing(self) -> None:
        """[ST-04] An empty `append` returns the current version, and still finds a conflict."""
        async with self.opened() as store:
            assert await store.append("c", [], 0) == 0
            assert await store.load("c") == ((), 0)
            version = await store.append("c", [user("one")], 0)
            assert await store.append("c", [], version) == version
            assert await conflict_of(store.append("c", [], 0)) == version

    async def test_the_state_of_a_run_is_written_with_its_messages(self) -> None:
        """[ST-14] Each write puts its state in place of the old one, in the same step, or none."""
        async with self.opened() as store:
            assert await store.load_state("c") is None
            state = {"a": [1, None, {"b": "\ud800"}], "t": "x" * 5000}
            first = await store.append("c", [user("one")], 0, state)
            assert await store.load_state("c") == state and await store.load_state("d") is None
            second = await store.append("c", [], first, {"n": 2})
            assert second != first and await store.load_state("c") == {"n": 2}
            assert await conflict_of(store.append("c", [user("two")], first, {"n": 3})) == second
            assert await store.load_state("c") == {"n": 2}
            third = await store.append("c", [user("two")], second)
            assert await store.load_state("c") is None
            fourth = await store.append("c", [], third, {"n": 4})
            await store.replace("c", (), fourth)
            assert await store.load_state("c") is None and await store.load("c") == ((), 0)

    async def test_a_state_that_is_no_json_is_refused_whole(self) -> None:
        """[ST-15] With a `StoreError`; nothing of the write is kept."""
        async with self.opened() as store:
            try:
                await store.append("c", [user("one")], 0, {"x": object()})
            except StoreError as error:
                assert "only JSON values" in str(error)
            else:
                raise AssertionError("it was taken")
            assert await store.load("c") == ((), 0)

    async def test_replace_puts_new_messages_in_place_of_all(self) -> None:
        """[ST-05] `replace` swaps the whole transcript under the same version rule."""
        async with self.opened() as store:
            first = await store.append("c", [user("one"), assistant("two")], 0)
            second = await store.replace("c", [user("summary")], first)
            assert await store.load("c") == ((user("summary"),), second)
            assert await conflict_of(store.replace("c", [user("late")], first)) == second
            assert await conflict_of(store.replace("c", [], first)) == second
            third = await store.append("c", [user("next")], second)
            assert await store.load("c") == ((user("summary"), user("next")), third)

    async def test_replace_creates_a_conversation_that_does_not_exist(self) -> None:
        """[ST-05] `replace` at version 0 begins a conversation."""
        async with self.opened() as store:
            version = await store.replace("c", [user("one")], 0)
            assert await store.load("c") == ((user("one"),), version)

    async def test_replacing_with_nothing_deletes_the_conversation(self) -> None:
        """[ST-06] An empty `replace` deletes: version 0, no messages; deleting nothing is fine."""
        async with self.opened() as store:
            version = await store.append("c", [user("one")], 0)
            assert await store.replace("c", [], version) == 0
            assert await store.load("c") == ((), 0)
            assert await store.replace("c", [], 0) == 0

    async def test_a_conversation_made_anew_is_not_taken_for_the_deleted_one(self) -> None:
        """[ST-07] A writer that knew a conversation before it was deleted and begun again conflicts."""
        async with self.opened() as store:
            known = await store.append("c", [user("old")], 0)
            await store.replace("c", [], known)
            now = await store.append("c", [user("new")], 0)
            assert await conflict_of(store.append("c", [user("to the old one")], known)) == now
            assert await store.load("c") == ((user("new"),), now)

    async def test_conversations_are_independent_whatever_their_ids(self) -> None:
        """[ST-08] Ids are opaque: any string works and no two different strings meet."""
        async with self.opened() as store:
            for n, id in enumerate(AWKWARD_IDS):
                assert await store.load(id) == ((), 0), id
                await store.append(id, [user(f"of {n}")], 0)
            for n, id in enumerate(AWKWARD_IDS):
                messages, version = await store.load(id)
                assert messages == (user(f"of {n}"),), id
                assert await store.replace(id, [], version) == 0
                assert await store.load(id) == ((), 0), id

    async def test_every_kind_of_part_comes_back_equal(self) -> None:
        """[ST-09] Messages come back equal: every part, opaque provider data and empty messages."""
        async with self.opened() as store:
            await store.append("c", EVERY_PART, 0)
            messages, _ = await store.load("c")
            assert messages == EVERY_PART

    async def test_awkward_text_comes_back_exactly(self) -> None:
        """[ST-09] NUL, lone surrogates, separators and emoji survive in text, names and extras."""
        async with self.opened() as store:
            written = (
                user(AWKWARD_TEXT),
                assistant(
                    AWKWARD_TEXT, ToolCallPart("call_1", "x", AWKWARD_TEXT, {AWKWARD_TEXT: AWKWARD_TEXT})
                ),
                Message("tool", (ToolResultPart("call_1", AWKWARD_TEXT),)),
            )
            await store.append("c", written, 0)
            messages, _ = await store.load("c")
            assert messages == written

    async def test_a_big_message_comes_back_whole(self) -> None:
        """[ST-09] Five megabytes in one message are no special case."""
        async with self.opened() as store:
            text = "0123456789abcdé" * (5_000_000 // 15)
            await store.append("c", [user(text)], 0)
            messages, _ = await store.load("c")
            assert messages[0].text == text

    async def test_concurrent_appenders_that_retry_lose_nothing(self) -> None:
        """[ST-10] Twenty writers of one conversation, each retrying on conflict: all arrive, whole."""

        async def turn(store: Store, writer: int) -> None:
            pair = [user(f"question {writer}"), assistant(f"answer {writer}")]
            while True:
                _, version = await store.load("c")
                await asyncio.sleep(0)
                try:
                    await store.append("c", pair, version)
                    return
                except StoreConflict:
                    continue

        async with self.opened() as store:
            await asyncio.gather(*(turn(store, n) for n in range(20)))
            texts = [m.text for m in (await store.load("c"))[0]]
            asked, answered = texts[::2], texts[1::2]
            assert sorted(asked) == sorted(f"question {n}" for n in range(20))
            assert answered == [a.replace("question", "answer") for a in asked]

    async def test_only_one_of_many_writers_of_one_version_wins(self) -> None:
        """[ST-10] Of twenty appends that expect the same version exactly one is written."""
        async with self.opened() as store:
            attempts = (store.append("c", [user(str(n))], 0) for n in range(20))
            results = await asyncio.gather(*attempts, return_exceptions=True)
            won = [n for n, r in enumerate(results) if not isinstance(r, BaseException)]
            assert len(won) == 1
            assert all(isinstance(r, StoreConflict) for n, r in enumerate(results) if n not in won)
            messages, version = await store.load("c")
            assert (messages, version) == ((user(str(won[0])),), results[won[0]])

    async def test_closing_twice_is_fine(self) -> None:
        """[ST-11] `aclose` may be called again, and on a store that was never used."""
        async with self.opened() as store:
            await store.aclose()
            await store.aclose()


async def conflict_of(write: Awaitable[int]) -> int:
    """The version that the `StoreConflict` of `write` reports. Asserts that there is one."""
    try:
        version = await write
    except StoreConflict as conflict:
        return conflict.version
    raise AssertionError(f"no StoreConflict: written as version {version}")
