"""Many at once, and the end of a client: nothing is mixed up and nothing is left."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.builtins.helpers import pid_in, running
from tests.loop.bodies import Sent
from tests.loop.support import (
    PATIENCE,
    WAYS,
    Act,
    Gate,
    Way,
    bench,
    each_style,
    is_anthropic,
    paired,
    task,
    two_ways,
    use,
)
from tests.mcp.helpers import all_gone, children, logged, until
from tests.warm import Warm
from tests.whole.support import nothing_left, stdio
from toolnexus import (
    Agent,
    Budget,
    Client,
    ConfigError,
    FunctionModel,
    MemoryStore,
    Message,
    ModelHTTPError,
    ModelRequest,
    RunError,
    SqliteStore,
    assistant,
    tool,
)
from toolnexus.testing import call
from toolnexus.testing.endpoint import ScriptedEndpoint, Seen
from toolnexus.testing.turns import Turn

pytestmark = pytest.mark.anyio


@tool
def shout(word: str) -> str:
    """Shout, in a thread."""
    return word.upper()


@pytest.mark.exhaustive
@two_ways
async def test_two_hundred_asks_at_once(way: Way) -> None:
    """[RUN-80] On one client, each with a tool call and a conversation of its own: every answer goes to its
    ask, every request is valid, and nothing is left afterwards."""

    def answer(seen: Seen) -> Turn:
        request = Sent(seen.body, anthropic=is_anthropic(seen))
        word = request.users[-1]
        if not request.results:
            return Turn(calls=[use("shout", {"word": word}, "call_0")])
        return Turn(text=f"{word} {request.results[-1].text}")

    acts: list[Turn | Act] = [answer] * 400
    async with nothing_left(), bench(way, {"main": acts}, tools=[shout]) as b:
        asks = [way.ask(b.client, f"w{n}", conversation=f"t{n}") for n in range(200)]
        results = await asyncio.gather(*asks)
        assert [r.text for r in results] == [f"w{n} W{n}" for n in range(200)]
        assert sum(r.usage.total_tokens for r in results) == b.endpoint.usage_total == 400 * 15
        assert len(b.sent()) == 400
        messages = await b.client.conversation("t199").messages()
        assert messages == results[199].messages and paired(messages)


@two_ways
async def test_sixty_four_sub_agents_at_once(way: Way) -> None:
    """[RUN-81] With raised limits all 64 are in flight together (none is answered before); 64 results in call
    order; usage is the endpoint's sum; nothing is left."""
    gate = Gate(64)
    calls = [task("x", f"p{n}", id=f"c{n}") for n in range(64)]

    async def child(seen: Seen) -> Turn:
        word = Sent(seen.body, anthropic=is_anthropic(seen)).users[0]
        turn = gate.then(Turn(text=f"did {word}"))(seen)
        return turn if isinstance(turn, Turn) else await turn

    turns: dict[str, list[Turn | Act]] = {
        "main": [Turn(calls=calls), Turn(text="end")],
        "small": [child] * 64,
    }
    options: dict[str, Any] = {"max_sub_agents": 64, "budget": Budget(concurrency=64)}
    agents = [Agent(name="x", model="small", tools=[])]
    async with nothing_left(), bench(way, turns, agents=agents, **options) as b:
        result = await b.ask()
        assert b.endpoint.max_in_flight == 64
        assert [r.text for r in b.sent("main")[1].results] == [f"did p{n}" for n in range(64)]
        assert result.usage.total_tokens == b.endpoint.usage_total and len(result.sub_agents) == 64


@pytest.mark.exhaustive
@pytest.mark.parametrize("way", WAYS[3:], ids=str)
async def test_nothing_is_left_of_a_client_that_did_everything(way: Way, tmp_path: Path) -> None:
    """[RUN-82] Servers, threads, commands with survivors, long outputs, a store on disk, a failed and a
    cancelled ask: after `aclose` tasks, threads, open files, processes and folders are as before."""
    survivor = tmp_path / "survivor"
    calls = [
        use("bash", {"command": f"sleep 300 & echo $! > {survivor}; seq 30000"}),
        use("shout", {"word": "x"}),
        use("srv_echo", {"s": "y"}),
        task("x"),
    ]
    turns = {
        "main": [Turn(calls=calls), Turn(text="end"), Turn(status=401), Turn(hang=True)],
        "small": [Turn(calls=[use("srv_env"), use("nothing")]), Turn(text="ok")],
    }
    agents = [Agent(name="x", model="small", tools=["srv_*"])]
    options: dict[str, Any] = {"builtins": ["bash"], "tools": [shout], "workdir": tmp_path}
    log = tmp_path / "log"
    mcp = {"good": stdio("--deaf", "--child", "--log", str(log)), "bad": stdio("--hang", timeout=500)}
    async with nothing_left():
        store = SqliteStore(tmp_path / "talks.db")
        mcp["srv"] = stdio("--log", str(log))
        async with bench(way, turns, agents=agents, mcp=mcp, store=store, **options) as b:
            result = await b.ask(conversation="t")
            assert result.status == "done" and running(int(survivor.read_text()))
            place = Path(str(b.client._spill._folder))
            assert place.is_dir()
            with pytest.raises(ModelHTTPError, match="401"):
                await b.ask(conversation="t")
            hanging = asyncio.create_task(b.ask(conversation="t"))
            await b.endpoint.until(lambda: len(b.endpoint.requests) == 6)
            hanging.cancel()
            await asyncio.wait([hanging])
    assert not place.exists() and not running(int(survivor.read_text()))
    assert all_gone(logged(log, "pid") + logged(log, "child"), 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log", "survivor", "talks.db"]


@two_ways
async def test_closing_ends_the_asks_in_flight(way: Way, tmp_path: Path) -> None:
    """[RUN-83] In a model request, in a child's command and in a server's call: what they had done is stored,
    who awaits one gets a `RunError` with its result (no cancel that nobody asked for), and nothing is
    left."""
    store, log = MemoryStore(), tmp_path / "log"
    turns = {
        "main": [Turn(text="on it", calls=[task("a"), task("b"), task("c"), task("d")])],
        "a": [Turn(hang=True)],
        "b": [Turn(calls=[use("bash", {"command": "sleep 300 & echo $! > one; wait"})])],
        "c": [Turn(calls=[use("srv_never")])],
        "d": [Turn(text="d is done")],
    }
    agents = [
        Agent(name="a", model="a", tools=[]),
        Agent(name="b", model="b", tools=["bash"]),
        Agent(name="c", model="c", tools=["srv_never"]),
        Agent(name="d", model="d", tools=[]),
    ]
    mcp = {"srv": stdio("--log", str(log))}
    async with nothing_left():
        async with bench(
            way, turns, agents=agents, mcp=mcp, store=store, builtins=["bash"], workdir=tmp_path
        ) as b:
            asking = asyncio.create_task(b.ask(conversation="t"))
            waiting = asyncio.create_task(b.ask("and me", conversation="t"))
            pid = await pid_in(tmp_path / "one")
            await until(lambda: logged(log, "executed"))
            await b.endpoint.until(lambda: len(b.endpoint.requests) == 5)
            began = time.monotonic()
            await b.client.aclose()
            assert time.monotonic() - began < 5
            assert asking.done() and waiting.done() and not running(pid)
            with pytest.raises(RunError, match="the client was closed while this ran") as caught:
                await asking
            with pytest.raises(RunError, match="closed"):
                await waiting
            assert len(b.endpoint.requests) == 5
            with pytest.raises(ConfigError, match="closed"):
                await b.ask("more")
    result = caught.value.result
    assert result.text == "on it" and paired(result.messages)
    messages, _ = await store.load("t")
    assert messages == result.messages
    assert messages[-1].tool_results[3].output == "d is done"


async def test_a_tool_may_close_its_own_client() -> None:
    """[RUN-83] A run that closes the client it runs on is ended by it, and does not wait for itself."""

    @tool
    async def shutdown() -> str:
        """Close."""
        await client.aclose()
        return "never"

    def model(request: ModelRequest) -> Message:
        return assistant("closing", call("shutdown"))

    async with asyncio.timeout(PATIENCE), nothing_left():
        client = Client(model=FunctionModel(model), builtins=False, tools=[shutdown])
        with pytest.raises(RunError, match="was closed while this ran"):
            await client.ask("go")
        await client.aclose()


async def test_a_block_that_is_not_entered_is_closed(tmp_path: Path) -> None:
    """[RUN-84] `async with Client(…)` that fails or is cancelled while it opens leaves no server, and the
    wait for a server that does not answer is not waited out."""
    log = tmp_path / "log"
    servers = {"good": stdio("--log", str(log)), "hung": stdio("--hang", "--log", str(log), timeout=60_000)}
    async with nothing_left():
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), Client(builtins=False, mcp=servers):
                raise AssertionError
        assert time.monotonic() - began < 10
    assert all_gone(logged(log, "pid"), 1) and len(logged(log, "pid")) == 2
    with pytest.raises(ConfigError, match="nothing_like_this"):
        with Client(builtins=False, mcp={"srv": stdio(tools=["nothing_like_this"])}):
            raise AssertionError
    assert children() == set()


async def test_closing_while_opening_tells_those_who_wait(tmp_path: Path) -> None:
    """[RUN-84] An ask that waits for the opening gets an error that says the client was closed."""
    log = tmp_path / "log"
    async with asyncio.timeout(PATIENCE), nothing_left():
        hung = stdio("--hang", "--log", str(log), timeout=60_000)
        client = Client(model=FunctionModel(lambda r: "x"), builtins=False, mcp={"hung": hung})
        asking = [asyncio.create_task(client.ask("go")) for _ in range(2)]
        await until(lambda: logged(log, "pid"))
        await client.aclose()
        for ask in asking:
            with pytest.raises(ConfigError, match="was closed before it was open"):
                await ask
    assert all_gone(logged(log, "pid"), 1)


async def test_a_cancelled_close_goes_on(tmp_path: Path) -> None:
    """[RUN-85] Cancelling `aclose`, also again and again, lets its caller go and everything is closed all the
    same; a second caller waits for the same end."""
    log = tmp_path / "log"
    async with asyncio.timeout(PATIENCE), nothing_left():
        client = Client(builtins=False, mcp={"deaf": stdio("--deaf", "--log", str(log))})
        await client.__aenter__()
        first = asyncio.create_task(client.aclose())
        await asyncio.sleep(0)
        for _ in range(3):
            first.cancel()
            await asyncio.sleep(0)
        assert first.cancelled() and children() != set()
        await client.aclose()
        assert children() == set()
    assert all_gone(logged(log, "pid"), 1)


@each_style
def test_event_loops_come_and_go(way: Way, warm: Warm, tmp_path: Path) -> None:
    """[RUN-87] One client in `asyncio.run` again and again, with a conversation and a server: connections and
    servers are opened anew, and not a word about loops that are gone is on the terminal."""
    log = tmp_path / "log"
    turns = [
        Turn(calls=[use("srv_pid", id=f"c{n}")]) if n % 2 == 0 else Turn(text=f"end {n}") for n in range(6)
    ]
    program = """
import asyncio, gc, sys
from tests.whole.support import stdio
from toolnexus import AnthropicModel, Client, OpenAIModel
url, style, log = sys.argv[1:]
model = (OpenAIModel if style == "openai" else AnthropicModel)("main", base_url=url)
client = Client(model=model, builtins=False, mcp={"srv": stdio("--log", log)})
for n in range(3):
    print(asyncio.run(client.ask("go", conversation="t")).text)
    gc.collect()
asyncio.run(client.aclose())
"""
    with ScriptedEndpoint(turns) as endpoint:
        done = warm.run(program, endpoint.url, way.style, str(log))
        assert len(endpoint.requests[-1].body["messages"]) in (10, 11)
    assert (done.stdout, done.stderr, done.returncode) == ("end 1\nend 3\nend 5\n", "", 0)
    assert len(logged(log, "pid")) == 3 and all_gone(logged(log, "pid"), 1)


@each_style
def test_plain_code_asks_from_many_threads(way: Way, tmp_path: Path) -> None:
    """[RUN-87] `ask_sync` on one client from eight threads at once: each has its own answer; the block ends
    the server and the thread."""
    log = tmp_path / "log"

    def answer(body: dict[str, Any]) -> Turn:
        request = Sent(body, anthropic=way.style == "anthropic")
        if not request.results:
            return Turn(calls=[use("srv_echo", {"s": request.users[0]})])
        return Turn(text=f"heard {request.results[0].text}")

    before = set(threading.enumerate())
    with ScriptedEndpoint(answer) as endpoint:
        model = way.model(endpoint)
        with Client(model=model, builtins=False, mcp={"srv": stdio("--log", str(log))}) as client:
            with ThreadPoolExecutor(8) as pool:
                answers = [r.text for r in pool.map(client.ask_sync, [f"w{n}" for n in range(8)])]
    assert answers == [f"heard w{n}" for n in range(8)]
    assert len(logged(log, "pid")) == 1 and all_gone(logged(log, "pid"), 1)
    left = {t for t in set(threading.enumerate()) - before if not t.name.startswith("toolnexus-worker")}
    assert left == set()


@each_style
async def test_an_agent_may_work_in_a_folder_of_its_own(way: Way, tmp_path: Path) -> None:
    """[RUN-88] Its commands and files are in its `workdir`; `cd` in a command changes nothing for anybody."""
    for name in ("a", "b/sub"):
        (tmp_path / name).mkdir(parents=True)
    look = use("bash", {"command": "pwd; cd sub 2>/dev/null; echo x > here"}, "c1")
    turns = {
        "main": [Turn(calls=[look, task("x")]), Turn(calls=[{**look, "id": "c2"}]), Turn(text="end")],
        "small": [Turn(calls=[look]), Turn(calls=[{**look, "id": "c2"}]), Turn(text="ok")],
    }
    agents = [Agent(name="x", model="small", tools=["bash"], workdir=tmp_path / "b")]
    async with bench(way, turns, agents=agents, builtins=["bash"], workdir=tmp_path / "a") as b:
        await b.ask()
        mine, childs = b.sent("main")[-1].results, b.sent("small")[-1].results
    assert [r.text for r in (mine[0], mine[2])] == [f"{tmp_path / 'a'}\n"] * 2
    assert [r.text for r in childs] == [f"{tmp_path / 'b'}\n"] * 2
    made = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("here"))
    assert made == ["a/here", "b/sub/here"]


def test_a_program_that_ends_in_the_middle_leaves_nothing(warm: Warm, tmp_path: Path) -> None:
    """[RUN-86] `asyncio.run` is interrupted with asks, commands and servers under way: the interpreter ends
    soon, without a traceback of ours beside the interrupt, and no process is left."""
    log = tmp_path / "log"
    program = f"""
import asyncio, sys
from toolnexus import Agent, Client, FunctionModel, assistant
from toolnexus.testing import call
from tests.whole.support import stdio

def model(request):
    if request.agent == "main":
        return assistant("", call("task", agent="x", prompt="p"), call("srv_never"))
    return assistant("", call("bash", command="sleep 300 & echo $! > one; wait"))

async def main():
    mcp = {{"srv": stdio("--deaf", "--child", "--log", {str(log)!r})}}
    options = {{"builtins": ["bash"], "workdir": {str(tmp_path)!r}, "agents": [Agent(name="x")]}}
    async with Client(model=FunctionModel(model), mcp=mcp, **options) as client:
        print("open", flush=True)
        await client.ask("go", conversation="t")

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    with (tmp_path / "errors").open("w+") as errors, warm.start(program, strict=True, stderr=errors) as host:
        assert host.stdout.readline() == "open\n"
        deadline = time.monotonic() + 20
        while not (
            (tmp_path / "one").exists() and (tmp_path / "one").read_text().strip() and logged(log, "executed")
        ):
            assert time.monotonic() < deadline and host.is_running
            time.sleep(0.02)
        host.send_signal(signal.SIGINT)
        assert host.stdout.read() == "interrupted\n"
        host.wait(20)
    assert (tmp_path / "errors").read_text() == ""
    assert all_gone([int((tmp_path / "one").read_text()), *logged(log, "pid"), *logged(log, "child")], 3)
