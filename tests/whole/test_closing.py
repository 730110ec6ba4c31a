"""The ends of clients that are used from plain code, or wrongly."""

import asyncio
import signal
import sys
import threading
from traceback import walk_stack

import pytest

from toolnexus import Client, ConfigError, FunctionModel, Message, ModelRequest, RunError, assistant, tool
from toolnexus.runtime.loop_thread import LoopThread
from toolnexus.testing import call

pytestmark = pytest.mark.anyio


def echo() -> FunctionModel:
    return FunctionModel(lambda request: request.messages[-1].text)


async def test_what_is_closed_can_be_closed_again_in_either_way() -> None:
    """[RUN-83] A client that was never open, too; one that is open on a loop is closed there."""
    client = Client(model=echo(), builtins=False)
    client.close()
    client.close()
    await client.aclose()
    await client.aclose()
    with pytest.raises(ConfigError, match="closed"):
        await client.ask("hi")
    client = Client(model=echo(), builtins=False)
    await client.ask("hi")
    with pytest.raises(ConfigError, match=r"opened on an event loop: await its aclose\(\) there"):
        client.close()
    await client.aclose()
    client.close()


def test_a_tool_may_close_the_client_of_plain_code() -> None:
    """[RUN-83] The run is ended by it; `close()` then ends the thread."""

    @tool
    async def shutdown() -> str:
        """Close."""
        await client.aclose()
        return "never"

    client = Client(
        model=FunctionModel(lambda request: assistant("closing", call("shutdown"))),
        builtins=False,
        tools=[shutdown],
    )
    before = threading.active_count()
    with pytest.raises(RunError, match="was closed while this ran"):
        client.ask_sync("go")
    assert threading.active_count() == before + 1
    client.close()
    assert threading.active_count() == before
    with pytest.raises(ConfigError, match="closed"):
        client.ask_sync("go")


def test_an_interrupt_in_plain_code_waits_until_the_run_has_ended() -> None:
    """[CONV-10] Ctrl-C in `ask_sync` cancels the run: it has cleaned up when the interrupt is seen."""
    ended: list[str] = []

    @tool
    async def endless() -> str:
        """Be interrupted."""
        main = threading.main_thread().ident or 0
        while "wait" not in {frame.f_code.co_name for frame, _ in walk_stack(sys._current_frames()[main])}:
            await asyncio.sleep(0)  # it is not waiting yet
        signal.pthread_kill(main, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            ended.append("cleaned up")
        return ""

    def model(request: ModelRequest) -> Message | str:
        last = request.messages[-1]
        return assistant("", call("endless")) if last.text == "go" else f"{len(request.messages)}"

    with Client(model=FunctionModel(model), builtins=False, tools=[endless]) as client:
        with pytest.raises(KeyboardInterrupt):
            client.ask_sync("go", conversation="t")
        assert ended == ["cleaned up"]
        assert client.ask_sync("and now?", conversation="t").text == "4"


def test_an_error_of_the_work_is_raised_here_and_the_thread_goes_on() -> None:
    """[CONV-10] Of a loop thread: value and error come back, and it can be closed again and again."""

    async def fails() -> None:
        raise LookupError("no")

    async def works() -> str:
        return threading.current_thread().name

    thread = LoopThread("mine")
    with pytest.raises(LookupError, match="no"):
        thread.call(fails())
    assert thread.call(works()) == "mine" and not thread.is_current
    thread.close()
    thread.close()
    assert thread.loop.is_closed() and "mine" not in [t.name for t in threading.enumerate()]
