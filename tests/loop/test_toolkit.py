"""Toolkit: tools outside a run, views, declarations, and which of several names wins."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.loop.support import Way, bench, each_style
from toolnexus import (
    Agent,
    Answer,
    Client,
    ConfigError,
    FunctionModel,
    Hooks,
    Message,
    ModelRequest,
    NameConflict,
    Request,
    Tool,
    ToolContext,
    Toolkit,
    ToolResult,
    assistant,
    pending,
    tool,
)
from toolnexus.testing import call
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio


@dataclass
class Tree:
    """A tree."""

    name: str
    branches: list[Tree]


@tool
async def double(n: int, ctx: ToolContext) -> int:
    """Double a number.

    Args:
        n: The number.
    """
    return 2 * n


@tool
async def broken() -> str:
    """Fail."""
    raise OSError("no disk")


@tool
def threaded(word: str) -> str:
    """Shout."""
    return word.upper()


@tool
async def nested(ctx: ToolContext) -> str:
    """Run an agent."""
    return (await ctx.run(Agent(name="x"), "hi")).text


def kit() -> Toolkit:
    return Toolkit([double, broken, threaded, nested])


async def test_a_tool_can_be_used_without_a_run() -> None:
    """[RUN-90] Validated and bounded like in a loop; text, or JSON for any other value."""
    toolkit = kit()
    assert (await toolkit.execute("double", {"n": 4})).output == "8"
    assert (await toolkit.execute("double", {"n": "4"})).output == "8"
    assert (await toolkit.execute("threaded", {"word": "ah"})).output == "AH"
    long = await Toolkit([tool(name="long", description="")(lambda: "x" * 99_000)]).execute("long")
    found = re.search(r"the full text is in (\S+) …\]", long.output)
    assert len(long.output) < 51_000 and found is not None
    assert Path(found[1]).read_text() == "x" * 99_000 == Path(long.metadata["outputPath"]).read_text()


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("double", {"n": "four"}, 'n: expected integer, got "four"'),
        ("double", {}, "n: required, but missing"),
        ("double", {"n": 1, "m": 2}, "m: unknown; allowed: n"),
        ("double", {"n": object()}, "no JSON object"),
        ("double", {"n": {1, 2}}, "no JSON object"),
        ("double", [1, 2], "no JSON object"),
        ("double", {"n": float("nan")}, "not valid JSON"),
        ("broken", None, "'broken' failed: OSError: no disk"),
        ("duoble", {"n": 1}, "unknown tool 'duoble'; available: .*did you mean 'double'"),
        ("", {}, "unknown tool ''"),
        ("nested", {}, "outside a client"),
    ],
)
async def test_whatever_goes_wrong_is_a_result(name: str, arguments: Any, told: str) -> None:
    """[RUN-91] Bad arguments of any kind, a failing and an unknown tool: `is_error`, never an exception."""
    result = await kit().execute(name, arguments)
    assert result.is_error and re.search(told, result.output, re.DOTALL), result.output


async def test_only_a_cancel_is_raised() -> None:
    """[RUN-91] Cancelling the awaiting task cancels the tool; a cancel from inside is an error result."""
    began, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def endless() -> None:
        """Never ends."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    @tool
    async def stray() -> None:
        """Raise a cancel of its own."""
        raise asyncio.CancelledError

    toolkit = Toolkit([endless, stray])
    running = asyncio.create_task(toolkit.execute("endless"))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()
    assert "cancelled from inside" in (await toolkit.execute("stray")).output


async def test_a_tool_of_a_client_has_what_a_run_has(tmp_path: Path) -> None:
    """[RUN-92] Hooks, `on_request`, the workdir, nested runs and the folder of long outputs, without a model
    request; a question with nobody to ask comes back as it is."""

    class Hook(Hooks):
        def before_tool(self, ctx: ToolContext) -> Mapping[str, Any] | ToolResult | None:
            if ctx.tool.name == "broken":
                return ToolResult(output="not today", is_error=True)
            return {"n": 21} if ctx.tool.name == "double" else None

        def after_tool(self, ctx: ToolContext, result: ToolResult) -> ToolResult | None:
            return ToolResult(output=f"<{result.output}>") if ctx.tool.name == "double" else None

    @tool
    async def confirm(ctx: ToolContext) -> ToolResult:
        """Confirm."""
        return ToolResult(output="yes") if ctx.answer else pending(kind="approval", prompt="sure?")

    async def answer(request: Request) -> Answer:
        return Answer(id=request.id)

    (tmp_path / "note.txt").write_text("hello\n")
    options: dict[str, Any] = {"workdir": tmp_path, "builtins": ["read"], "hooks": [Hook()]}
    tools: list[Any] = [double, broken, confirm, nested]
    model = FunctionModel(lambda r: f"{'/'.join(r.path)} says hi")
    async with Client(model=model, tools=tools, on_request=answer, **options) as client:
        toolkit = client.toolkit
        assert (await toolkit.execute("double", {"n": 1})).output == "<42>"
        assert (await toolkit.execute("broken")).output == "not today"
        assert (await toolkit.execute("confirm")).output == "yes"
        assert (await toolkit.execute("read", {"path": "note.txt"})).output == "hello\n"
        assert (await toolkit.execute("read", {"path": "../x"})).is_error
        assert (await toolkit.execute("nested")).output == "main/x.call_1 says hi"
        assert toolkit.only("double", "confirm").names() == ["double", "confirm"]
        assert (await toolkit.only("double").execute("double", {"n": 1})).output == "<42>"
    async with Client(tools=tools, **options) as client:
        asked = await client.toolkit.execute("confirm")
    assert [r.prompt for r in asked.requests] == ["sure?"]


async def test_task_can_be_called_by_the_host() -> None:
    """[RUN-92] `toolkit.execute("task", …)` is one delegation, with its metadata."""
    model = FunctionModel(lambda r: f"did {r.messages[0].text}")
    async with Client(model=model, builtins=False, agents=[Agent(name="x")]) as client:
        result = await client.toolkit.execute("task", {"agent": "x", "prompt": "it", "context": "first"})
        wrong = await client.toolkit.execute("task", {"agent": "y", "prompt": "it"})
    assert result.output == "did first\n\nit" and result.metadata["path"] == ["main", "x.call_1"]
    assert wrong.is_error and "['x']" in wrong.output


def test_views_leave_the_whole_as_it_is() -> None:
    """[RUN-93] `only`, `without` and `filtered` give new sets in the old order; globs are allowed, a name
    that does not exist is a `ConfigError` with the nearest."""
    toolkit = kit()
    assert toolkit.only("threaded", "double").names() == ["double", "threaded"]
    assert toolkit.without("b*").names() == ["double", "threaded", "nested"]
    assert toolkit.filtered(lambda t: "e" in t.name).without("double").names() == [
        "broken",
        "threaded",
        "nested",
    ]
    assert toolkit.only().names() == [] and toolkit.without().names() == toolkit.names()
    toolkit.names().clear()
    assert toolkit.names() == ["double", "broken", "threaded", "nested"] and len(toolkit) == 4
    assert "double" in toolkit and toolkit.get("double") is double and toolkit.get("x") is None
    assert [t.name for t in toolkit] == toolkit.names() and "double" in repr(toolkit)
    for view in (toolkit.only, toolkit.without):
        with pytest.raises(ConfigError, match=r"'duoble'.*did you mean 'double'"):
            view("duoble")


def test_declarations_for_each_vendor() -> None:
    """[RUN-94] The same tools in the form of OpenAI, Anthropic and Gemini, in order, equal every time."""
    toolkit = kit().only("double", "threaded")
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "description": "The number."}},
        "required": ["n"],
        "additionalProperties": False,
    }
    first, _ = toolkit.to_openai()
    assert first == {
        "type": "function",
        "function": {"name": "double", "description": "Double a number.", "parameters": schema},
    }
    assert toolkit.to_anthropic()[0] == {
        "name": "double",
        "description": "Double a number.",
        "input_schema": schema,
    }
    (gemini,) = toolkit.to_gemini()
    assert [f["name"] for f in gemini["functionDeclarations"]] == ["double", "threaded"]
    assert gemini["functionDeclarations"][0]["parameters"]["properties"]["n"]["type"] == "integer"
    assert Toolkit().to_openai() == Toolkit().to_anthropic() == Toolkit().to_gemini() == []
    assert toolkit.to_openai() == kit().only("double", "threaded").to_openai()


@each_style
async def test_an_endpoint_is_sent_these_declarations(way: Way) -> None:
    """[RUN-94] Recursive and referring schemas as well: what a request declares is what the toolkit gives."""

    @tool
    async def draw(tree: Tree) -> str:
        """Draw a tree."""
        return tree.name

    async with bench(way, {"main": [Turn(text="end")]}, tools=[double, draw]) as b:
        await b.ask()
        (request,) = b.sent()
        toolkit = b.client.toolkit
    declared = toolkit.to_anthropic() if request.anthropic else toolkit.to_openai()
    sent = [{k: v for k, v in t.items() if k != "cache_control"} for t in request.body["tools"]]
    assert sent == declared and "$ref" not in request.raw


class Shelf:
    """A tool source with tools of the given names."""

    def __init__(self, name: str, *tools: str) -> None:
        self.name = name
        self._names = tools
        self.opened = self.closed = 0
        self.tools: Sequence[Tool] = ()

    async def open(self, on_change: Callable[[], None]) -> None:
        self.opened += 1
        self.tools = [self._tool(name) for name in self._names]

    async def aclose(self) -> None:
        self.closed += 1
        self.tools = ()

    def _tool(self, name: str) -> Tool:
        async def execute(arguments: dict[str, Any], ctx: Any) -> str:
            return f"{name} of {self.name}"

        return Tool(name, f"{name} of {self.name}.", {"type": "object"}, execute)


async def test_a_tool_of_the_host_takes_the_place_of_a_builtin() -> None:
    """[RUN-95] The builtin of that name is gone, for agents too: their filter of builtins does not match the
    host's tool."""

    @tool
    async def read(path: str) -> str:
        """My own read."""
        return f"mine {path}"

    agent = Agent(name="x", tools={"builtins": ["grep"]})
    async with Client(tools=[read], builtins=["read", "grep"], agents=[agent]) as client:
        assert client.toolkit.names() == ["grep", "read", "task"]
        assert client.toolkit.get("read") is read
        assert (await client.toolkit.execute("read", {"path": "/etc"})).output == "mine /etc"
        description = client.toolkit.get("task")
        assert description is not None and description.description.endswith("- x (tools: grep, read)")


ALL = "apply_patch bash edit glob grep question read todowrite webfetch write".split()


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        (True, ALL),
        ({}, ALL),
        (False, []),
        ([], []),
        (["read", "g*"], ["glob", "grep", "read"]),
        ({"read": True}, ["read"]),
        ({"bash": False, "*w*": False, "*_*": False}, ["edit", "glob", "grep", "question", "read"]),
        ({"read": True, "bash": False, "b*": True}, ["read"]),
        ({"tools": {"read": True}}, ["read"]),
    ],
    ids=repr,
)
def test_one_filter_vocabulary(spec: Any, names: list[str]) -> None:
    """[RUN-98] Empty map: the default. Any `true`: an allowlist. Only `false`: a drop-list. A list: an
    allowlist, `[]` is none. `false` wins. The same for an agent."""
    assert Client(builtins=spec).toolkit.names() == names
    if "tools" in (spec if isinstance(spec, dict) else {}):
        return
    task = Client(agents=[Agent(name="x", description="X.", tools={"builtins": spec})]).toolkit.get("task")
    assert task is not None
    told = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if names[8:] else "")
    assert task.description.endswith(f"- x: X. (tools: {told or 'none'})")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Toolkit([double, double]),
        lambda: Client(tools=[double, tool(name="double")(threaded)]),
        lambda: Agent(name="x", tools=[double, "read", tool(name="double")(threaded)]),
    ],
    ids=["toolkit", "client", "agent"],
)
def test_two_tools_given_by_hand_with_one_name_are_a_conflict(make: Callable[[], object]) -> None:
    """[RUN-96] Wherever they are given: `NameConflict` that names it."""
    with pytest.raises(NameConflict, match="'double'"):
        make()


@pytest.mark.parametrize("name", ["", "two words", "a.b", "x" * 65, "ä"])
def test_a_name_that_no_model_can_call_is_refused(name: str) -> None:
    """[RUN-96] 1 to 64 of A-Z a-z 0-9 _ -; a tool given by hand with another name is a `ConfigError`."""

    async def execute(arguments: dict[str, Any], ctx: Any) -> str:
        return ""

    odd = Tool(name, "Odd.", {"type": "object"}, execute)
    for make in (lambda: Client(tools=[odd]), lambda: Agent(name="x", tools=[odd])):
        with pytest.raises(ConfigError, match="tool name"):
            make()


async def test_between_sources_the_first_name_wins(caplog: pytest.LogCaptureFixture) -> None:
    """[RUN-97] In the order servers, skills, builtins, functions, further sources; the hidden one is a
    warning that names both."""
    caplog.set_level(logging.WARNING, "toolnexus")
    a, b = Shelf("shelf-a", "one", "two", "grep"), Shelf("shelf-b", "two", "three", "threaded")
    async with Client(tools=[b, threaded, a], builtins=["grep"]) as client:
        assert client.toolkit.names() == ["grep", "threaded", "two", "three", "one"]
        assert (await client.toolkit.execute("two")).output == "two of shelf-b"
    assert "tool 'two' of shelf-a is hidden by the one of shelf-b" in caplog.text
    assert "tool 'grep' of shelf-a is hidden by the one of builtins" in caplog.text
    assert "tool 'threaded' of shelf-b is hidden by the one of tools" in caplog.text
    assert (a.opened, a.closed, b.opened, b.closed) == (1, 1, 1, 1)


async def test_an_agents_own_tools_come_before_its_clients() -> None:
    """[RUN-97] Its own tool of a name is the one it is offered, once, whatever its sources and its client
    have under that name; its caller keeps the client's."""
    offers: dict[str, list[str]] = {}
    answers: dict[str, str] = {}

    def model(request: ModelRequest) -> Message | str:
        if request.turn == 1:
            offers[request.agent] = [t.name for t in request.tools]
            more = [call("task", agent="x", prompt="p")] if request.agent == "main" else []
            return assistant("", call("one"), *more)
        answers[request.agent] = request.messages[2].tool_results[0].output
        return "end"

    mine = tool(name="one", description="Mine.")(lambda: "my own")
    shelf, other = Shelf("shelf", "one", "two"), Shelf("other", "two", "one", "three")
    agent = Agent(name="x", tools=["one", mine, other])
    async with Client(model=FunctionModel(model), builtins=False, tools=[shelf], agents=[agent]) as client:
        await client.ask("go")
    assert offers == {"main": ["one", "two", "task"], "x": ["one", "two", "three"]}
    assert answers == {"main": "one of shelf", "x": "my own"}
    assert (other.opened, other.closed) == (1, 1)


def test_long_outputs_of_calls_outside_a_client_go_with_the_interpreter() -> None:
    """[RUN-90] The folder is there for the host to read, and gone when its program has ended."""
    program = (
        "import asyncio, pathlib\n"
        "from toolnexus import Toolkit, tool\n"
        "long = tool(name='long', description='')(lambda: 'x' * 99_000)\n"
        "result = asyncio.run(Toolkit([long]).execute('long'))\n"
        "place = result.metadata['outputPath']\n"
        "print(place, len(pathlib.Path(place).read_text()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    place, size = done.stdout.split()
    assert size == "99000" and not Path(place).parent.exists() and done.stderr == ""
