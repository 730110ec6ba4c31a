"""Messages and tools are encoded once per run, and prompt caches see a stable prefix."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from tests.models.support import ANTHROPIC, OPENAI, Case, a_tool, bench
from toolnexus.core.messages import Message, ToolResultPart, user
from toolnexus.core.tools import Tool
from toolnexus.models import anthropic_request, openai, openai_request
from toolnexus.models.encode import Encoded
from toolnexus.testing import Turn

pytestmark = pytest.mark.anyio

STYLES = [Case(OPENAI), Case(ANTHROPIC)]
MARK = b',"cache_control":{"type":"ephemeral"}'


class CountingTool(Tool):
    """Counts how often its schema is read."""

    reads = 0

    @property
    def input_schema(self) -> Mapping[str, Any]:
        self.reads += 1
        return super().input_schema


async def ten_turns(case: Case) -> list[bytes]:
    """The bodies of a run of ten turns, with two tools and a system prompt."""
    script = [
        Turn(text=f"step {i}", calls=[{"id": f"c{i}", "name": "look", "args": {"i": i}}]) for i in range(10)
    ]
    tools = (a_tool("look"), a_tool("find"))
    async with bench(case, script) as b:
        messages = [user("start")]
        for i in range(10):
            message = (await b.ask(*messages, tools=tools, system="You look.")).message
            messages += [message, Message("tool", (ToolResultPart(f"c{i}", f"seen {i}"),))]
            if i == 5:
                messages.append(user("go on"))
        return [seen.raw for seen in b.endpoint.requests]


@pytest.mark.parametrize("case", STYLES, ids=str)
async def test_each_message_is_encoded_once_in_a_run(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """[WIRE-19] A turn encodes only what was added since the last one."""
    module = openai_request if case.style == OPENAI else anthropic_request
    encoded: list[Message] = []
    original = module.encode_message

    def counting(message: Message, *args: Any, **kwargs: Any) -> Any:
        encoded.append(message)
        return original(message, *args, **kwargs)

    monkeypatch.setattr(module, "encode_message", counting)
    openai._encoder.cache_clear()  # an endpoint of before may have had this address
    bodies = await ten_turns(case)
    last = json.loads(bodies[-1])["messages"]
    assert len(encoded) == len({id(m) for m in encoded}) == 20
    assert len(last) == (21 if case.style == OPENAI else 19)


@pytest.mark.parametrize("case", STYLES, ids=str)
async def test_tools_are_encoded_once_and_their_bytes_stay(case: Case) -> None:
    """[WIRE-19] The same sequence of tools is encoded once per run; its bytes are equal every turn."""
    tool = CountingTool("look", "Look.", {"type": "object"}, a_tool().execute)
    tools = (tool,)
    async with bench(case, [Turn(text="ok")] * 3) as b:
        await b.ask(tools=tools)
        reads = tool.reads
        for _ in range(2):
            await b.ask(tools=tools)
        assert tool.reads == reads
        first, *others = [seen.raw.partition(b'"tools":')[2] for seen in b.endpoint.requests]
        assert all(other == first for other in others)


@pytest.mark.parametrize("case", STYLES, ids=str)
async def test_other_tools_are_encoded_again(case: Case) -> None:
    """[WIRE-19] When the offered tools or the system prompt change, so does the body."""
    async with bench(case, [Turn(text="ok")] * 2) as b:
        await b.ask(tools=(a_tool("one"),), system="One.")
        await b.ask(tools=(a_tool("two"),), system="Two.")
        one, two = [seen.raw.decode() for seen in b.endpoint.requests]
        assert "The tool one" in one and "One." in one
        assert "The tool two" in two and "Two." in two
        assert "The tool one" not in two and "One." not in two


async def test_the_prefix_of_a_run_never_changes() -> None:
    """[WIRE-20] Without its markers, each Anthropic body starts with all bytes of the one before."""
    bodies = [body.replace(MARK, b"") for body in await ten_turns(Case(ANTHROPIC))]
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier.removesuffix(b"]}]}"))


async def test_at_most_four_cache_markers_are_set() -> None:
    """[WIRE-20] Markers: the last tool, the system prompt, the ends of the two last user turns."""
    for number, raw in enumerate(await ten_turns(Case(ANTHROPIC))):
        assert raw.count(b"cache_control") == (3 if number == 0 else 4)
        body = json.loads(raw)
        assert "cache_control" in body["tools"][-1]
        assert "cache_control" in body["system"][-1]
        users = [m for m in body["messages"] if m["role"] == "user"]
        marked = [m for m in body["messages"] if any("cache_control" in block for block in m["content"])]
        assert marked == users[-2:]
        assert all("cache_control" in m["content"][-1] for m in marked)


async def test_the_openai_style_grows_at_its_end_only() -> None:
    """[WIRE-20] Each body of a run starts with all bytes of the one before."""
    bodies = await ten_turns(Case(OPENAI))
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier.removesuffix(b"]}"))


@pytest.mark.parametrize("case", STYLES, ids=str)
async def test_a_rewritten_message_is_sent_as_rewritten(case: Case) -> None:
    """[WIRE-19] A hook's change in the middle, a shorter history and a longer one are all seen."""
    one, two, three = user("one"), Message("assistant", user("two").parts), user("three")
    changed = user("changed")
    histories = [[one], [one, two, three], [changed, two, three], [one], [one, two, changed]]
    async with bench(case, [Turn(text="ok")] * len(histories)) as b:
        for history in histories:
            await b.ask(*history)
        texts = [[plain(m["content"]) for m in body["messages"]] for body in b.bodies]
        assert texts == [[m.text for m in history] for history in histories]


def plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def test_copies_of_messages_do_not_grow_the_table_for_ever() -> None:
    """[WIRE-19] A hook that copies every message each turn leaves a bounded table behind."""
    encoded = Encoded(lambda message: message.text)
    for _ in range(200):
        assert encoded.all([user(f"m{i}") for i in range(10)]) == [f"m{i}" for i in range(10)]
    assert len(encoded._known or ()) <= 2 * 10 + 64 + 10


async def test_lone_surrogates_do_not_stop_a_request() -> None:
    """[WIRE-19] Text that is no valid Unicode is sent with a replacement character."""
    for case in STYLES:
        async with bench(case, [Turn(text="ok")]) as b:
            await b.ask(user("a\ud800b \U0001f30d"))
            assert plain(b.bodies[0]["messages"][0]["content"]) == "a\ufffdb \U0001f30d"
