"""Calls over stdio: results, failures, time, cancelling."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.helpers import context, entries, logged, opened, server, until, use
from toolnexus.core.events import Event, ToolProgress
from toolnexus.core.messages import MediaPart
from toolnexus.protocols.mcp import call as call_module
from toolnexus.tools.mcp_config import ServerConfig

pytestmark = pytest.mark.anyio

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def test_each_part_of_a_result_comes_once_in_its_form() -> None:
    """[MCP-13] Text, links and text resources are lines of the output; images and PDFs are parts beside
    it; a sound, which no endpoint takes from a tool, is a file."""
    async with opened(server()) as source:
        result = await use(source, "mixed")
    output, _, note = result.output.partition("\n[")
    assert output == "first\nResource q3.csv: file:///r/q3.csv (text/csv)\na note"
    assert note.startswith("audio/wav: not shown: ")
    assert Path(result.metadata["mediaPaths"][0]).read_bytes() == b"AB"
    assert result.parts == (
        MediaPart("image/png", data=PIXEL),
        MediaPart("application/pdf", data="JVBERi0x", name="b.pdf"),
    )
    assert not result.is_error


def _text(*texts: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": t} for t in texts], **more}


@pytest.mark.parametrize(
    ("given", "output"),
    [
        (_text("a", "b"), "a\nb"),
        (_text(structuredContent={"t": 21.5}), '{"t": 21.5}'),
        ({"structuredContent": {"t": 1}}, '{"t": 1}'),
        (_text("It is warm.", structuredContent={"t": 30}), 'It is warm.\n{"t": 30}'),
        (_text('{ "t" :30 }', structuredContent={"t": 30}), '{ "t" :30 }'),
        (_text("hello", structuredContent={"result": "hello"}), "hello"),
        (_text("3", structuredContent={"result": 3}), "3"),
        (_text("a", "b", structuredContent={"content": "a\nb"}), "a\nb"),
        (_text("Pune", structuredContent={"city": "Pune"}), 'Pune\n{"city": "Pune"}'),
        (_text("none", structuredContent={"result": []}), 'none\n{"result": []}'),
        (_text("1", "x", structuredContent={"result": [1, "x"]}), '1\nx\n{"result": [1, "x"]}'),
        (_text("a", "b", structuredContent={"result": ["a", "b"]}), "a\nb"),
        (_text('{"i":1}', '{"i":2}', structuredContent={"result": [{"i": 1}, {"i": 2}]}), '{"i":1}\n{"i":2}'),
        ({"content": []}, "The tool returned nothing."),
        (_text(""), "The tool returned nothing."),
        ({"content": [], "isError": True}, "The tool failed without saying why."),
        ({"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}, "(attached: image/png)"),
    ],
)
async def test_a_result_is_never_empty_and_never_doubled(given: dict[str, Any], output: str) -> None:
    """[MCP-13] Structured content is added as JSON unless the text says it already; there is always
    some text."""
    async with opened(server()) as source:
        result = await use(source, "result", **given)
    assert result.output == output
    assert result.is_error is bool(given.get("isError"))


async def test_an_error_of_the_server_is_an_error_result(official_stdio: Callable[..., ServerConfig]) -> None:
    """[MCP-14] `isError`, a protocol error, and a malformed answer are error results; the last two
    name tool and server."""
    async with opened(official_stdio()) as official, opened(server(name="mine")) as source:
        failed = await use(official, "fail")
        assert (failed.output, failed.is_error) == ("no luck", True)
        refused = await use(source, "result", error={"code": -32602, "message": "no such city"})
        assert refused.is_error and refused.metadata == {"server": "mine"}
        assert refused.output == "tool 'result' of MCP server 'mine' failed: no such city"
        malformed = await use(source, "result", content=[{"type": "hologram"}])
        assert malformed.is_error
        assert "tool 'result' of MCP server 'mine' failed: it sent no valid MCP message" in malformed.output
        assert (await use(source, "echo", s="still here")).output == "still here"


async def test_large_results_arrive_whole() -> None:
    """[MCP-13] A result of several megabytes on one line arrives whole."""
    async with opened(server()) as source:
        tool = next(t for t in source.tools if t.original_name == "large")
        result = await tool.execute({"size": 8_000_000}, _ctx(source))
    assert result.output == "x" * 8_000_000


def _ctx(source: Any) -> Any:
    from toolnexus.core.messages import ToolCallPart
    from toolnexus.runtime.context import ToolContext

    return ToolContext(context=context(), call=ToolCallPart("c", "t"), tool=source.tools[0], arguments={})


async def test_large_arguments_arrive_whole() -> None:
    """[MCP-13] Arguments larger than a pipe arrive whole, also several at once."""
    async with opened(server()) as source:
        tool = next(t for t in source.tools if t.original_name == "echo")
        texts = [str(n) * 300_000 for n in range(5)]
        async with asyncio.timeout(30):
            results = await asyncio.gather(*[tool.execute({"s": t}, _ctx(source)) for t in texts])
    assert [r.output for r in results] == texts


async def test_two_hundred_calls_at_once_get_their_own_answers() -> None:
    """[MCP-17] Parallel calls on one server each get their own result."""
    async with opened(server()) as source:
        results = await asyncio.gather(*[use(source, "echo", s=str(n)) for n in range(200)])
    assert [r.output for r in results] == [str(n) for n in range(200)]


async def test_a_call_without_progress_ends_at_its_timeout() -> None:
    """[MCP-15] A call that gives no sign of life is an error result after `timeout`; the server is
    told, and stays usable."""
    async with opened(server(timeout=1000)) as source:
        began = time.monotonic()
        result = await use(source, "never")
        assert 0.9 < time.monotonic() - began < 3
        assert result.is_error and "did not answer within 1 seconds" in result.output
        assert len(json.loads((await use(source, "cancelled")).output)) == 1
        assert source.status["status"] == "connected"


async def test_progress_extends_the_timeout() -> None:
    """[MCP-15] Each progress report begins the timeout anew, and reaches the events of the run."""
    events: list[Event] = []
    async with opened(server(timeout=1000)) as source:
        began = time.monotonic()
        result = await use(source, "steps", context(events=events), count=6, pause=0.4)
        assert time.monotonic() - began > 2.3
    assert result.output == "done"
    reports = [e for e in events if isinstance(e, ToolProgress)]
    assert [(e.message, e.data) for e in reports][:2] == [
        ("step", {"progress": 1.0, "total": 6.0}),
        ("step", {"progress": 2.0, "total": 6.0}),
    ]


async def test_progress_never_extends_beyond_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """[MCP-15] However much progress is reported, a call ends after a number of timeouts: ten."""
    assert call_module.CAP == 10
    monkeypatch.setattr(call_module, "CAP", 3)
    async with opened(server(timeout=1000)) as source:
        began = time.monotonic()
        result = await use(source, "steps", count=100, pause=0.2)
        assert 2.8 < time.monotonic() - began < 6
        assert result.is_error


async def test_cancelling_one_call_leaves_the_other_and_the_server(tmp_path: Path) -> None:
    """[MCP-16] A cancelled call tells the server; other calls in flight complete, a late answer is
    discarded and the server is kept."""
    log = tmp_path / "log"
    async with opened(server("--log", str(log))) as source:
        doomed = asyncio.create_task(use(source, "never"))
        other = asyncio.create_task(use(source, "sleep", seconds=0.5))
        await until(lambda: sorted(logged(log, "executed")) == ["never", "sleep"])
        doomed.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doomed
        assert (await other).output == "slept"
        sent = next(e["id"] for e in entries(log) if e.get("params", {}).get("name") == "never")
        assert json.loads((await use(source, "cancelled")).output) == [sent]
        assert len(logged(log, "pid")) == 1


async def test_a_stopped_server_does_not_hold_a_call_beyond_its_timeout(tmp_path: Path) -> None:
    """[MCP-15] A server that does not even read any more costs a call its timeout, and many large
    calls at once no more."""
    log = tmp_path / "log"
    async with opened(server("--log", str(log), timeout=1500)) as source:
        os.kill(logged(log, "pid")[0], signal.SIGSTOP)
        began = time.monotonic()
        results = await asyncio.gather(*[use(source, "echo", s="y" * 400_000) for _ in range(6)])
        assert time.monotonic() - began < 6
        assert all(r.is_error for r in results)
        os.kill(logged(log, "pid")[0], signal.SIGCONT)
        assert (await use(source, "echo", s="awake")).output == "awake"


async def test_a_tool_that_is_gone_is_an_error_result() -> None:
    """[MCP-14] Calls to a tool of a source that is closed are error results."""
    async with opened(server()) as source:
        tool = source.tools[0]
    result = await tool.execute({}, _ctx_of(tool))
    assert result.is_error and "it is not connected" in result.output


def _ctx_of(tool: Any) -> Any:
    from toolnexus.core.messages import ToolCallPart
    from toolnexus.runtime.context import ToolContext

    return ToolContext(context=context(), call=ToolCallPart("c", "t"), tool=tool, arguments={})
