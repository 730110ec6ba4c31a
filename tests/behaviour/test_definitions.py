"""What makes no sense is told where it is written: the option, what came, and what is allowed."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import toolnexus
from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    ConfigError,
    Event,
    Hooks,
    Request,
    RunError,
    ToolContext,
    ToolResult,
    pending,
    tool,
)
from toolnexus.testing import ScriptedModel, call, reply

pytestmark = pytest.mark.anyio

NAN = float("nan")


class Watching(Hooks):
    def before_tool(self, ctx: ToolContext) -> None:
        """Watch."""


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def client(**options: Any) -> Client:
    return Client(model=ScriptedModel(["x"]), builtins=options.pop("builtins", False), **options)


WRONG: list[tuple[Callable[[], object], str, str]] = [
    (lambda: client(budget=1000), "budget=1000 (int): ", "Budget(tokens=200_000)"),
    (lambda: client(budget={"tokens": 1}), "budget={'tokens': 1} (dict): ", "give a Budget"),
    (lambda: client(max_turns="5"), "max_turns='5'", "whole number"),
    (lambda: client(max_turns=None), "max_turns=None", "whole number"),
    (lambda: client(max_sub_agents=1.5), "max_sub_agents=1.5", "whole number"),
    (lambda: client(tools=add), "tools=<function add", "tools=[function]"),
    (lambda: client(agents=Agent(name="a")), "agents=Agent(", "agents=[agent]"),
    (lambda: client(agents=5), "agents=5", "agents=[agent]"),
    (lambda: client(hooks=Watching()), "hooks=", "hooks=[MyHooks()]"),
    (lambda: client(hooks=[Watching]), "the class Watching", "Watching()"),
    (lambda: client(store="x.db"), "store='x.db'", "SqliteStore('x.db')"),
    (lambda: client(store=5), "store=5", "SqliteStore"),
    (lambda: client(allowed_models="openai:x"), "allowed_models='openai:x'", "give a list"),
    (lambda: client(on_request="x"), "on_request='x'", "give a function"),
    (lambda: client(on_request=5), "on_request=5", "give a function"),
    (lambda: client(should_continue=True), "should_continue=True", "give a function"),
    (lambda: client(system_prompt=3), "system_prompt=3", "give text"),
    (lambda: client(system_prompt=None), "system_prompt=None", "give text"),
    (lambda: client(mcp=5), "mcp must be the path of a file", "a mapping of servers"),
    (lambda: client(skills=5), "skills: 5", "give a folder"),
    (lambda: client(builtins="read"), "builtins: 'read'", "list of names"),
    (lambda: client(workdir=__file__), "is a file", "folder"),
    (lambda: client(workdir="x" * 10_000), "is no folder", "give the path of one"),
    (lambda: client(workdir=5), "workdir=5", "path of a folder"),
    (lambda: client().conversation(5), "conversation=5", "text"),  # type: ignore[arg-type]
    (lambda: Client(model=5), "model=5", "'provider:name'"),  # type: ignore[arg-type]
    (lambda: Budget(tokens="200k"), "budget tokens='200k'", "None for no ceiling"),  # type: ignore[arg-type]
    (lambda: Budget(requests=True), "budget requests=True", "whole number"),
    (lambda: Budget(seconds=NAN), "budget seconds=nan", "number of seconds"),
    (lambda: Budget(tokens=NAN), "budget tokens=nan", "whole number"),  # type: ignore[arg-type]
    (lambda: Budget(concurrency=1.5), "budget concurrency=1.5", "whole"),  # type: ignore[arg-type]
    (lambda: Budget(concurrency=NAN), "budget concurrency=nan", "whole"),  # type: ignore[arg-type]
    (lambda: Budget(concurrency=None), "budget concurrency=None", "whole"),  # type: ignore[arg-type]
    (lambda: Agent(name="a", tools="read"), "agent 'a': tools: 'read'", "give a list"),
    (lambda: Agent(name="a", agents=5), "agent 'a': agents=5", "give a list"),  # type: ignore[arg-type]
    (lambda: Agent(name="a", budget=5), "agent 'a': budget=5", "Budget"),  # type: ignore[arg-type]
    (lambda: Agent(name="a", system_prompt=None), "agent 'a': system_prompt", "text"),  # type: ignore[arg-type]
    (lambda: Agent(name="a", max_turns="5"), "agent 'a': max_turns='5'", "whole"),  # type: ignore[arg-type]
    (lambda: Agent(name="a", model=5), "agent 'a': model=5", "'provider:name'"),  # type: ignore[arg-type]
    (lambda: Agent(name="a", workdir=__file__), "agent 'a': workdir", "is a file"),
]


@pytest.mark.parametrize(("make", "what", "fix"), WRONG, ids=[w for _, w, _ in WRONG])
def test_an_option_of_the_wrong_type_names_itself_and_the_fix(
    make: Callable[[], object], what: str, fix: str
) -> None:
    """[DEF-01] The error names the option, what came and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        make()
    assert what in str(caught.value) and fix in str(caught.value)


async def test_the_options_of_an_ask_are_checked_as_well() -> None:
    """[DEF-01] A target that cannot be run and a conversation id that is no text are told."""
    async with client() as c:
        with pytest.raises(ConfigError, match=r"target=5 \(int\): give an Agent"):
            await c.run(5, "x")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"conversation=5 \(int\)"):
            await c.ask("x", conversation=5)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"conversation=5 \(int\)"):
            async with c.stream("x", conversation=5):  # type: ignore[arg-type]
                pass


def test_a_server_file_that_is_no_path_shows_no_content() -> None:
    """[DEF-02] An error about `mcp` never repeats what may hold secrets."""
    with pytest.raises(ConfigError) as caught:
        client(mcp=[{"env": {"KEY": "sk-hidden"}}])
    assert "sk-hidden" not in str(caught.value)


@pytest.mark.parametrize("threaded", [False, None], ids=["thread=False", "async"])
def test_waiting_for_the_own_loop_is_an_error_at_once(threaded: bool | None) -> None:
    """[CONV-10] `ask_sync` and `close` on the client's own loop raise instead of waiting for ever."""
    told: list[str] = []

    def both() -> str:
        for step in (lambda: c.ask_sync("inner"), c.close):
            try:
                step()
            except ConfigError as error:
                told.append(str(error))
        return "ok"

    async def waiting() -> str:
        return both()

    def plain() -> str:
        return both()

    asking = tool(name="asking")(waiting) if threaded is None else tool(name="asking", thread=False)(plain)
    c = Client(model=ScriptedModel([reply("", call("asking")), "done"]), builtins=False, tools=[asking])
    got: list[str] = []

    def use() -> None:
        with c:
            got.append(c.ask_sync("x").text)

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(20)
    assert got == ["done"] and not thread.is_alive()
    assert told[0] == "ask_sync was called on the client's own loop; await client.ask(…) here"
    assert "close() was called on the client's own loop" in told[1]


def test_a_threaded_tool_may_still_ask() -> None:
    """[CONV-11] A sync tool runs on another thread, where `ask_sync` waits for nobody but the loop."""

    def asking() -> str:
        return c.ask_sync("inner").text

    model = ScriptedModel([reply("", call("asking")), "inner", "done"])
    with Client(model=model, builtins=False, tools=[asking]) as c:
        result = c.ask_sync("x")
    assert [p.output for m in result.messages for p in m.tool_results] == ["inner"]


async def test_a_stream_that_is_left_at_once_says_so() -> None:
    """[EV-03] Leaving before the run began leaves no warning, no event, and a clear `result`."""
    async with client() as c, asyncio.timeout(20):
        async with c.stream("x") as stream:
            with pytest.raises(RuntimeError, match="still under way"):
                _ = stream.result
        with pytest.raises(RunError, match="left before it began"):
            _ = stream.result
        events: list[Event] = [event async for event in stream]
        assert events == []


async def test_the_result_of_a_stream_that_could_not_begin_names_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[EV-04] A failure before the run is raised when the block ends; `result` has it as its cause."""
    monkeypatch.delenv("TOOLNEXUS_MODEL", raising=False)
    async with client() as c, asyncio.timeout(20):
        await c.aclose()
        with pytest.raises(ConfigError, match="closed"):
            async with c.stream("x") as stream:
                _ = [event async for event in stream]
                with pytest.raises(RunError, match=r"never began.*closed") as caught:
                    _ = stream.result
                assert isinstance(caught.value.__cause__, ConfigError)


@tool
def deploy(ctx: ToolContext) -> ToolResult:
    """Deploy."""
    if ctx.answer is None:
        return pending(kind="approval", prompt="deploy?")
    return ToolResult(output=f"deployed: {ctx.answer.data}")


async def outputs(on_request: Any) -> list[str]:
    model = ScriptedModel([reply("", call("deploy")), "done"])
    async with Client(model=model, builtins=False, tools=[deploy], on_request=on_request) as c:
        result = await c.ask("x")
    return [p.output for m in result.messages for p in m.tool_results]


async def test_a_plain_function_may_answer() -> None:
    """[ASK-09] `on_request` is plain or async."""

    def answer(request: Request) -> Answer:
        return Answer(id=request.id, data="by ann")

    assert await outputs(answer) == ["deployed: by ann"]


@pytest.mark.parametrize("given", ["yes", None, True])
async def test_what_is_no_answer_is_named(given: object) -> None:
    """[ASK-09] Anything but an `Answer` is an error result that says what to return."""

    async def answer(request: Request) -> object:
        return given

    [text] = await outputs(answer)
    assert f"on_request must return an Answer(id=request.id, …), not {type(given).__name__}" in text


def test_the_types_of_public_signatures_are_public() -> None:
    """[DEF-03] What a signature names can be imported from `toolnexus`, and the version is there."""
    for name in ("Stream", "Conversation", "ToolCallPart", "ToolResultPart", "ToolSpec", "OnRequest"):
        assert name in toolnexus.__all__
    assert toolnexus.SkillIssue.__name__ == "SkillIssue" and toolnexus.Prompt is not None
    assert toolnexus.__version__[0].isdigit()


def test_every_option_of_a_client_is_described() -> None:
    """[DEF-04] The documentation of `Client` has a line for each option."""
    text = Client.__doc__ or ""
    missing = [name for name in inspect.signature(Client).parameters if f"`{name}`" not in text]
    assert not missing


async def test_an_agent_file_root_may_be_made_later(tmp_path: Path) -> None:
    """[DEF-01] A folder that is not there yet is no wrong type."""
    assert Agent(name="a", workdir=tmp_path / "later").settings.workdir == str(tmp_path / "later")


async def test_lists_may_be_any_iterable() -> None:
    """[DEF-01] What is given once, such as a generator, is not used up by the checks."""
    names: Any = (name for name in ["b"])
    agents = {"a": Agent(name="a", agents=names), "b": Agent(name="b")}
    async with client(tools=(f for f in [add]), agents=agents.values(), hooks=iter([Watching()])) as c:
        assert c.toolkit.names() == ["add", "task"]
    assert agents["a"].agents == ("b",)
