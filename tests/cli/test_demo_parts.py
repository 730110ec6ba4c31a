"""The parts of the demo: its file server, and its scripted model, which must read to find."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from toolnexus import list_mcp_tools
from toolnexus.cli.demo import server
from toolnexus.cli.demo.kit import FILES_SERVER, GOAL, REPORT, new_folder, scripted_model
from toolnexus.cli.demo.program import demo_client
from toolnexus.cli.demo.rules import judge, rules

pytestmark = pytest.mark.anyio


def exchange(folder: Path, *messages: Any) -> list[dict[str, Any]]:
    """What the server replies to these messages."""
    lines = [m if isinstance(m, str) else json.dumps(m) for m in messages]
    replies = io.StringIO()
    server.serve(str(folder), io.StringIO("\n".join(lines) + "\n"), replies)
    return [json.loads(line) for line in replies.getvalue().splitlines()]


def request(id: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def test_the_file_server_is_a_real_mcp_server() -> None:
    """[CLI-70] The client of the official package connects to it and lists its tools."""
    async with asyncio.timeout(20):
        config = {"files": {"command": sys.executable, "args": ["-I", FILES_SERVER, "/nowhere"]}}
        found = await list_mcp_tools(config)
    assert found["files"]["status"] == "connected"
    assert [tool["name"] for tool in found["files"]["tools"]] == ["list", "read"]


def test_the_file_server_follows_the_protocol(tmp_path: Path) -> None:
    """[CLI-71] It agrees on a version, answers requests in order, ignores notifications, and refuses with the
    codes of JSON-RPC."""
    replies = exchange(
        tmp_path,
        request(1, "initialize", protocolVersion="2025-06-18"),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request(2, "initialize", protocolVersion="1999-01-01"),
        request(3, "ping"),
        request(4, "resources/list"),
        request(5, "tools/call", name="fly"),
        "{",
        "[]",
        {"jsonrpc": "2.0", "id": 9, "result": {}},
    )
    assert [r["id"] for r in replies] == [1, 2, 3, 4, 5, None, None]
    assert replies[0]["result"]["protocolVersion"] == "2025-06-18"
    assert replies[1]["result"]["protocolVersion"] == server.VERSIONS[0]
    assert [r["error"]["code"] for r in replies[3:]] == [-32601, -32602, -32700, -32600]


def test_the_file_server_stays_in_its_folder(tmp_path: Path) -> None:
    """[CLI-72] It lists and reads below its folder only, links resolved; a failure is a result."""
    (tmp_path / "secret").write_text("s")
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "a.py").write_text("x = 1\n")
    (inside / ".hidden").write_text("h")
    (inside / "link").symlink_to(tmp_path / "secret")
    paths = ("a.py", "../secret", "link", "none")
    calls = [request(n, "tools/call", name="read", arguments={"path": p}) for n, p in enumerate(paths)]
    listed, *read = exchange(inside, request(9, "tools/call", name="list"), *calls)
    assert listed["result"]["content"][0]["text"].splitlines()[1:] == ["a.py", "link"]
    assert read[0]["result"]["content"][0]["text"] == "1: x = 1"
    assert [r["result"]["isError"] for r in read] == [False, True, True, True]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return new_folder()


async def played(folder: Path) -> str:
    """The answer of the demo on this folder."""
    async with asyncio.timeout(30), demo_client(folder, scripted_model(0.0)) as client:
        return (await client.ask(GOAL)).text


async def test_the_script_finds_nothing_where_nothing_is_wrong(folder: Path) -> None:
    """[CLI-73] With the bug repaired the same script finds none and writes no report."""
    shipping = folder / "desk" / "shipping.py"
    shipping.write_text(shipping.read_text().replace("paid > FREE_FROM", "paid >= FREE_FROM"))
    text = await played(folder)
    assert text.startswith("The bug was not found.")
    assert not (folder / REPORT).exists()


async def test_the_script_finds_the_bug_where_it_is(folder: Path) -> None:
    """[CLI-73] Moved to another file and line, the mistake is found there: nothing is known beforehand."""
    shipping, parcel = folder / "desk" / "shipping.py", folder / "desk" / "parcel.py"
    shipping.write_text(shipping.read_text().replace("paid > FREE_FROM", "paid >= FREE_FROM"))
    parcel.write_text("# one more line\n" + parcel.read_text().replace("<= SMALL_UP_TO", "< SMALL_UP_TO"))
    lines = parcel.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "< SMALL_UP_TO" in text)
    text = await played(folder)
    assert text.startswith(f"The bug is in desk/parcel.py:{line}: two agents found it in different ways.")
    assert "should be:  if articles <= SMALL_UP_TO:" in (folder / REPORT).read_text()


def test_the_planted_bug_is_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """[CLI-74] The program runs, and charges an order of exactly the limit for shipping."""
    names = ("main", "desk", "desk.order", "desk.discount", "desk.shipping", "desk.parcel", "desk.receipt")
    sys.path.insert(0, str(folder))
    try:
        from importlib import import_module

        import_module("main").main(["12.50", "37.50"])
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["total", "54.90"]


@pytest.mark.parametrize(
    ("words", "right", "wrong"),
    [
        ("from `LIMIT` upward", (">= LIMIT", "< LIMIT"), ("> LIMIT", "<= LIMIT")),
        ("at least LIMIT", (">= LIMIT", "< LIMIT"), ("> LIMIT", "<= LIMIT")),
        ("up to `LIMIT`", ("<= LIMIT", "> LIMIT"), ("< LIMIT", ">= LIMIT")),
        ("at most LIMIT", ("<= LIMIT", "> LIMIT"), ("< LIMIT", ">= LIMIT")),
    ],
)
def test_words_and_comparisons_are_held_against_each_other(
    words: str, right: tuple[str, ...], wrong: tuple[str, ...]
) -> None:
    """[CLI-75] A comparison is a finding exactly when it leaves out what the words include."""
    known = rules(f"It holds {words}.")
    assert not any(judge("a.py", 1, f"if x {code}:", known) for code in right)
    for code in wrong:
        finding = judge("a.py", 1, f"if x {code}:", known)
        assert finding is not None
        assert judge("a.py", 1, finding.repaired, known) is None
