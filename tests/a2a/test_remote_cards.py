"""Agents elsewhere: what is written down of them, their cards, and where headers go."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.a2a.seen import Seen
from tests.a2a.test_remote import client, results
from toolnexus import (
    Agent,
    ConfigError,
    RemoteAgent,
    SourceError,
)
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


# ---- what is written down


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "remote agent 'far' has neither url nor card: give the address of the agent, or its card"),
        ({"url": "http://x", "card": {}}, "remote agent 'far' has url and card"),
        ({"url": "x"}, "remote agent 'far': an address looks like 'https://host/path'"),
        ({"url": "ftp://x"}, "an address looks like"),
        ({"url": "http://ann:pass@x"}, "an address must not hold a user or password"),
        ({"url": 5}, "remote agent 'far': address=5 (int): give a text"),
        (
            {"card": "missing.json"},
            "remote agent 'far': the card 'missing.json' cannot be read: No such file",
        ),
        ({"url": "http://x", "timeout": 0}, "timeout=0 must be more than 0"),
        ({"url": "http://x", "headers": {"A": "${UNSET_FOR_THIS_TEST}"}}, "'UNSET_FOR_THIS_TEST'"),
        ({"url": "http://x", "headers": {"A": "b\n"}}, "header 'A' holds a control character"),
        ({"url": "http://x", "skills": "all"}, "remote agent 'far': skills: 'all'; a filter is a list"),
        ({"url": "http://x", "description": 5}, "description=5 (int): give text"),
        ({"url": "http://x", "budget": 5}, "budget=5 (int): give a Budget"),
    ],
)
def test_what_is_wrong_is_told_where_it_is_written(options: dict[str, Any], text: str) -> None:
    """[A2A-01] As a ConfigError that names the agent."""
    with pytest.raises(ConfigError) as caught:
        RemoteAgent("far", **options)
    assert text in str(caught.value)
    assert "pass" not in str(caught.value).replace("password", "")


def test_a_name_is_one_to_64_characters() -> None:
    """[A2A-01] Like that of an agent of ours, and unique among all of them."""
    for name in ("", " ", "x" * 65):
        with pytest.raises(ConfigError, match="1 to 64 characters"):
            RemoteAgent(name, url="http://x")
    with pytest.raises(ConfigError, match="two agents are named 'far'"):
        client(Agent(name="far"), RemoteAgent("far", url="http://x"))


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """[A2A-02] When the agent is written down, not when it is asked."""
    monkeypatch.setitem(sys.modules, "a2a", None)
    monkeypatch.setattr("toolnexus.agents.remote.find_spec", lambda name: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    with pytest.raises(ConfigError, match=r"pip install '\.\[a2a\]' in its clone"):
        RemoteAgent("far", url="http://x")


def test_nothing_is_loaded_before_it_is_used() -> None:
    """[A2A-02] A remote agent that is written down loads neither the library nor an HTTP client."""
    program = (
        "import sys, toolnexus\n"
        "far = toolnexus.RemoteAgent('far', url='http://x', headers={'A': 'b'})\n"
        "toolnexus.Client(model='openai:m', api_key='k', base_url='http://x/v1', agents=[far], tools=[far])\n"
        "print([m for m in ('a2a', 'httpx', 'pydantic', 'mcp', 'google.protobuf') if m in sys.modules])"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": root}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[]\n", done.stderr


# ---- cards


async def test_a_card_is_found_wherever_it_may_be(base: str, tmp_path: Path) -> None:
    """[A2A-03] At both well-known paths, at its own address, in a file, and as what it holds."""
    from a2a.server.request_handlers.response_helpers import agent_card_to_dict

    from tests.a2a.remote_server import card

    data: dict[str, Any] = agent_card_to_dict(card(base, "v1"))
    (tmp_path / "card.json").write_text(json.dumps(data))
    places: list[dict[str, Any]] = [
        {"url": f"{base}/v1"},
        {"url": f"{base}/v1/"},
        {"url": f"{base}/v1-before"},
        {"card": f"{base}/v1/.well-known/agent-card.json"},
        {"card": tmp_path / "card.json"},
        {"card": str(tmp_path / "card.json")},
        {"card": data},
    ]
    for place in places:
        far = RemoteAgent("far", **place)
        async with client(far) as c:
            assert (await c.run(far, "echo hi")).text == "echo: hi", place
        assert far.description == "An agent of kind v1."


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/none", "there is no agent card at http://127.0.0.1"),
        ("/page", "it answered with a web page (text/html) and no A2A; check the address"),
        ("/list", "its card is no JSON object"),
        ("/secret", "HTTP 401 Unauthorized"),
        (
            "/nowhere",
            "its card offers no interface for JSONRPC or HTTP+JSON 1.0 or 0.3 ('file:///etc/passwd'",
        ),
        ("/future", "JSONRPC 2.0 is not spoken here"),
    ],
)
async def test_an_agent_without_a_sound_card_is_left_out(
    base: str, path: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """[A2A-04] With a warning that says why; the others work, and `task` says why it does not."""
    model = ScriptedModel(
        [reply(call("task", agent="far", prompt="x"), call("task", agent="near", prompt="echo ok")), "done"]
    )
    near, far = RemoteAgent("near", url=f"{base}/v1"), RemoteAgent("far", url=base + path)
    with caplog.at_level(logging.WARNING, "toolnexus.sources"):
        async with client(far, near, model=model, tools=[far]) as c:
            assert "source 'far' is not available: " in caplog.text and text in caplog.text
            result = await c.ask("go")
    failed, fine = results(result.messages)
    assert failed.startswith("agent 'far' failed: remote agent 'far': ") and text in failed
    assert fine == "echo: ok"


async def test_an_agent_that_does_not_answer_delays_nobody(base: str) -> None:
    """[A2A-04] A dead one and one whose card never comes; an agent that comes back is asked anew."""
    near = RemoteAgent("near", url=f"{base}/v1")
    late = RemoteAgent("late", url=f"{base}/late", timeout=0.1)
    dead = RemoteAgent("dead", url="http://127.0.0.1:1")
    async with client(near, late, dead) as c:
        assert (await c.run(near, "echo hi")).text == "echo: hi"
        with pytest.raises(SourceError, match=r"'late': (its card does not come|it said nothing)"):
            await c.run(late, "x")
        with pytest.raises(SourceError, match="remote agent 'dead': cannot connect"):
            await c.run(dead, "x")
        dead.url = f"{base}/v1"
        assert (await c.run(dead, "echo hi")).text == "echo: hi"


# ---- headers and origins


async def test_headers_go_to_the_origin_that_was_named_and_nowhere_else(
    base: str, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[A2A-05] A card that points to another origin gets the message without them."""
    monkeypatch.setenv("FAR_TOKEN", "sesame-4711")
    headers = {"Authorization": "Bearer ${FAR_TOKEN}", "X-Team": "tools"}
    own = RemoteAgent("own", url=f"{base}/v1", headers=headers)
    relative = RemoteAgent("relative", url=f"{base}/relative", headers=headers)
    foreign = RemoteAgent("foreign", url=f"{base}/foreign", headers=headers)
    async with client(own, relative, foreign) as c:
        for agent in (own, relative, foreign):
            assert (await c.run(agent, "echo hi")).text == "echo: hi"
    asked = [headers.get("authorization") for headers in seen.of("/v1/rpc")]  # the last two are polled
    assert asked[:2] == ["Bearer sesame-4711", "Bearer sesame-4711"] and asked[-1] is None
    assert asked == sorted(asked, key=lambda token: token is None)
    at = {"url": f"{base}/unauthorized/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    lost = RemoteAgent("lost", url=f"{base}/v1", headers=headers)
    from toolnexus.protocols.a2a.card import read

    lost._found = read({"name": "x", "supportedInterfaces": [at]}, base.replace("127.0.0.1", "localhost"))
    async with client() as c:
        with pytest.raises(SourceError, match=r"HTTP 401 .*headers are not sent there"):
            await c.run(lost, "x")
    assert all("x-team" in headers for headers in seen.of("/foreign/.well-known"))


@pytest.mark.parametrize(
    ("url", "named", "why"),
    [
        ("http://agents.example/rpc", "https://agents.example", "it is not encrypted, unlike its card"),
        ("http://169.254.169.254/rpc", "http://agents.example", "inside of a private network"),
        ("http://localhost:8080/rpc", "http://agents.example", "inside of a private network"),
        ("http://[::1]/rpc", "http://agents.example", "inside of a private network"),
        ("gopher://agents.example/rpc", "https://agents.example", "it is no http(s) address"),
        ("http://[bad/rpc", None, "it is no address"),
        ("/rpc", None, "it is no http(s) address"),
    ],
)
def test_a_card_cannot_point_to_where_the_user_would_not(url: str, named: str | None, why: str) -> None:
    """[A2A-05] Inside of a network, out of encryption, to other protocols."""
    from toolnexus.protocols.a2a.card import read
    from toolnexus.protocols.a2a.http import Fault

    at = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    with pytest.raises(Fault) as caught:
        read({"name": "x", "supportedInterfaces": [at]}, named)
    assert why in str(caught.value)


def test_the_named_origin_and_the_newer_version_come_first() -> None:
    """[A2A-05] Of the interfaces of a card; one of a card that the user gives is as good as named."""
    from toolnexus.protocols.a2a.card import read

    def at(url: str, version: str) -> dict[str, str]:
        return {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version}

    here = "https://a.example"
    offers = [at("https://b.example/1", "1.0"), at(f"{here}/0", "0.3"), at("/1", "1.0.2"), at("/2", "2.0")]
    found = read({"name": "x", "supportedInterfaces": offers}, f"{here}/card.json")
    assert (found.card.supported_interfaces[0].url, found.trusted) == (f"{here}/1", True)
    old = read({"name": "x", "url": "https://b.example/", "protocolVersion": "0.2.5"}, None)
    assert (old.card.supported_interfaces[0].protocol_version, old.trusted) == ("0.3", True)


async def test_secrets_of_headers_are_shown_nowhere(
    base: str, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[A2A-06] Not in what the agent says of them, in an error, in a repr; nor to commands of ours."""
    monkeypatch.setenv("FAR_PASS", "sesame-4711")
    far = RemoteAgent("far", url=f"{base}/v1", headers={"Authorization": "Bearer ${FAR_PASS}"})
    model = ScriptedModel([reply(call("task", agent="far", prompt="echo sesame-4711")), "done"])
    async with client(far, model=model) as c:
        assert results((await c.ask("go")).messages) == ["echo: [redacted]"]
        assert "FAR_PASS" in c._sources.secret_names
    assert "sesame" not in repr(far)
    lost = RemoteAgent("lost", url="http://127.0.0.1:1/sesame-4711", headers={"X-Key": "${FAR_PASS}"})
    async with client(lost) as c:
        with pytest.raises(SourceError) as caught:
            await c.run(lost, "x")
    assert "sesame" not in str(caught.value) and caught.value.__cause__ is None
