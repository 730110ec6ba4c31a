"""The scripted endpoint, as users of the package see it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.models.support import ANTHROPIC, OPENAI, Case, bench
from toolnexus.core.messages import ToolCallPart, user
from toolnexus.core.model import ModelRequest
from toolnexus.errors import ConfigError, ModelHTTPError
from toolnexus.testing import ScriptedEndpoint, Turn, call, reply
from toolnexus.testing.endpoint import main

pytestmark = pytest.mark.anyio


def post(url: str, path: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url + path, data=json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def test_it_serves_plain_code_from_a_thread() -> None:
    """[WIRE-41] As a plain context manager it answers blocking clients, and counts what it served."""
    script = {"a": [Turn(text="for a", usage=(3, 4))], "*": [{"text": "for all", "usage": None}]}
    with ScriptedEndpoint(script) as endpoint:
        one = post(endpoint.url, "/chat/completions", {"model": "a", "messages": []})
        two = post(endpoint.url, "/messages", {"model": "b", "messages": []})
        assert one["choices"][0]["message"]["content"] == "for a"
        assert two["content"] == [{"type": "text", "text": "for all"}]
        assert endpoint.usage_total == 7
        assert [seen.model for seen in endpoint.requests] == ["a", "b"]
        assert endpoint.max_in_flight == 1
        with pytest.raises(urllib.error.HTTPError, match="400") as caught:
            post(endpoint.url, "/chat/completions", {"model": "a"})
        assert b"only 1 turns" in caught.value.read()
        caught.value.close()


async def test_a_script_that_has_run_out_is_not_tried_again() -> None:
    """[WIRE-41] The answer for a used up script says so and is no passing failure."""
    async with bench(Case(OPENAI), []) as b:
        with pytest.raises(ModelHTTPError, match="'m' has only 0 turns"):
            await b.ask()
        assert len(b.bodies) == 1


async def test_a_function_answers_by_the_body() -> None:
    """[WIRE-41] A function of the body decides, and the last turn can repeat."""

    def by_body(body: dict[str, Any]) -> Turn:
        return Turn(text=body["messages"][-1]["content"][::-1])

    async with bench(Case(OPENAI), by_body) as b:
        assert (await b.ask(user("abc"))).message.text == "cba"
    async with ScriptedEndpoint([Turn(text="x")], repeat_last=True) as endpoint:
        model = Case(OPENAI).model(endpoint.url)
        for _ in range(3):
            assert (await model.generate(ModelRequest(messages=(user("x"),)))).message.text == "x"
        await model.aclose()


@pytest.mark.parametrize("stream", [False, True])
async def test_the_official_client_understands_it(stream: bool) -> None:
    """[WIRE-41] The official client reads its replies, whole and streamed."""
    import openai

    calls = [{"id": "c1", "name": "look", "args": {"q": "x"}}]
    async with (
        ScriptedEndpoint([Turn(text="hello there", calls=calls)]) as endpoint,
        openai.AsyncOpenAI(base_url=endpoint.url, api_key="x") as client,
    ):
        if not stream:
            reply = await client.chat.completions.create(model="m", messages=[])
            assert reply.choices[0].message.content == "hello there"
            return
        text = arguments = ""
        async for chunk in await client.chat.completions.create(model="m", messages=[], stream=True):
            if chunk.choices:
                delta = chunk.choices[0].delta
                text += delta.content or ""
                for call in delta.tool_calls or ():
                    arguments += (call.function and call.function.arguments) or ""
        assert (text, json.loads(arguments)) == ("hello there", {"q": "x"})


def test_an_unknown_turn_key_is_named() -> None:
    """[WIRE-41] A mistyped key of a script is an error with the nearest known one."""
    with pytest.raises(ConfigError, match="did you mean 'text'"):
        ScriptedEndpoint([{"txt": "x"}])


@pytest.mark.parametrize("style", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("streamed", [False, True])
async def test_turns_take_calls_and_texts_as_they_come(style: str, streamed: bool) -> None:
    """[WIRE-46] What `call` makes is a call of a turn, and a text is a turn."""
    turn = Turn(
        text="look", calls=[call("look", q="x"), call("look", id="mine"), ToolCallPart("t", "look", "[")]
    )
    async with bench(Case(style, streamed=streamed), [turn, "hello"]) as b:
        message = (await b.ask()).message
        got = [(c.id, c.name) for c in message.tool_calls]
        assert [got[1], got[2]] == [("mine", "look"), ("t", "look")] and got[0][0]
        assert json.loads(message.tool_calls[0].arguments) == {"q": "x"}
        assert (await b.ask()).message.text == "hello"


async def test_a_function_may_answer_with_a_text() -> None:
    """[WIRE-46] Also a function of the body gives a text for a turn."""
    async with bench(Case(OPENAI), lambda body: "made") as b:
        assert (await b.ask()).message.text == "made"


WRONG_CALLS: list[tuple[Any, str]] = [
    ([{"nme": "x"}], "call: unknown key 'nme'; did you mean 'name'"),
    ([{"name": "x", "arg": "y"}], "did you mean 'args'"),
    ([{"args": "y"}], "has no 'name'"),
    (["look"], "not str"),
    (call("look"), "must be a list of calls"),
    ({"name": "x"}, "must be a list of calls"),
    ("look", "must be a list of calls"),
]


@pytest.mark.parametrize(("calls", "said"), WRONG_CALLS)
def test_wrong_calls_are_an_error_of_the_turn(calls: Any, said: str) -> None:
    """[WIRE-46] A turn with calls that are none is refused when it is made, the nearest key named."""
    with pytest.raises(ConfigError, match=said):
        Turn(calls=calls)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("hello", "the script must be a list of turns"),
        ({"m": "hello"}, "the script of model 'm' must be a list of turns"),
        ([reply("x")], "not ScriptedReply"),
        ([5], "not int"),
    ],
)
def test_a_wrong_script_is_an_error_at_once(script: Any, said: str) -> None:
    """[WIRE-46] What is no list of turns is refused before anything is served."""
    with pytest.raises(ConfigError, match=said):
        ScriptedEndpoint(script)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "no JSON: Expecting value"),
        ('[{"calls": [{"name": "read", "arguments": {}}]}]', "unknown key 'arguments'"),
        ("3", "must be a list of turns"),
        (None, "No such file"),
    ],
)
def test_a_wrong_script_file_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str | None,
    said: str,
) -> None:
    """[WIRE-46] At the command line it is told on standard error, exit code 2."""
    script = tmp_path / "s.json"
    if text is not None:
        script.write_text(text)
    monkeypatch.setattr(sys, "argv", ["endpoint", "--script", str(script)])
    with pytest.raises(SystemExit) as left:
        main()
    (line,) = capsys.readouterr().err.splitlines()
    assert left.value.code == 2 and line.startswith(f"{script}: ") and said in line


@pytest.mark.parametrize("port", ["taken", "70000"])
def test_a_port_that_cannot_be_had_is_one_line(
    port: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """[WIRE-48] And exit code 2; a `ConfigError` in Python, and nothing is left behind."""
    script = tmp_path / "s.json"
    script.write_text("[]")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = port.replace("taken", str(taken.getsockname()[1]))
        monkeypatch.setattr(sys, "argv", ["endpoint", "--script", str(script), "--port", port])
        with pytest.raises(SystemExit) as left:
            main()
        (line,) = capsys.readouterr().err.splitlines()
        assert left.value.code == 2 and line.startswith(f"cannot listen on port {port}: ")
        with pytest.raises(ConfigError, match=f"port {port}"), ScriptedEndpoint([], port=int(port)):
            pass


def test_it_runs_from_the_command_line(tmp_path: Path) -> None:
    """[WIRE-41] `python -m toolnexus.testing.endpoint` serves a script file and prints its port."""
    script = tmp_path / "s.json"
    script.write_text(json.dumps({"m": [{"text": "from a file", "usage": [1, 2]}]}))
    command = [sys.executable, "-m", "toolnexus.testing.endpoint", "--script", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip().removeprefix("PORT=")
            reply = post(f"http://127.0.0.1:{port}/v1", "/chat/completions", {"model": "m"})
            assert reply["choices"][0]["message"]["content"] == "from a file"
            assert reply["usage"]["total_tokens"] == 3
        finally:
            process.terminate()
