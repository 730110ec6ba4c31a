"""In-process suspension: a tool asks, somebody in reach answers."""

import asyncio

import pytest

from toolnexus import (
    Agent,
    Answer,
    Budget,
    Client,
    FunctionModel,
    Message,
    ModelRequest,
    Request,
    ToolContext,
    ToolResult,
    assistant,
    pending,
    tool,
)
from toolnexus.testing import call

pytestmark = pytest.mark.anyio


@tool
async def deploy(where: str, ctx: ToolContext) -> ToolResult:
    """Deploy somewhere."""
    if ctx.answer is None:
        return pending(kind="approval", prompt=f"deploy to {where}?")
    return ToolResult(output=f"deployed to {where}: {ctx.answer.data}")


def deploying(request: ModelRequest) -> Message | str:
    if request.turn == 1:
        return assistant("", call("deploy", where="prod"))
    return request.messages[-1].tool_results[0].output


async def test_an_answer_lets_the_same_call_run_again() -> None:
    """[ASK-01] ok → the call runs once more with `ctx.answer`; the request names the path."""
    asked: list[Request] = []

    async def answer(request: Request) -> Answer:
        asked.append(request)
        return Answer(id=request.id, data="by ann")

    async with Client(model=FunctionModel(deploying), builtins=False, tools=[deploy], on_request=answer) as c:
        result = await c.ask("go")
    assert result.status == "done" and result.text == "deployed to prod: by ann"
    assert asked[0].kind == "approval" and asked[0].data == {"path": ["main"]}
    assert result.tool_calls == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(id="", ok=False), "declined: deploy to prod?"),
        (Answer(id="", ok=False, reason="expired"), "expired: deploy to prod?"),
    ],
)
async def test_no_is_an_error_result(answer: Answer, text: str) -> None:
    """[ASK-02] Declined and expired are told apart."""

    async def refuse(request: Request) -> Answer:
        return Answer(id=request.id, ok=False, reason=answer.reason)

    async with Client(model=FunctionModel(deploying), builtins=False, tools=[deploy], on_request=refuse) as c:
        assert (await c.ask("go")).text == text


async def test_a_second_question_is_unresolved() -> None:
    """[ASK-03] A tool that keeps asking is stopped."""

    @tool
    async def nag(ctx: ToolContext) -> ToolResult:
        """Nag."""
        return pending(kind="question", prompt="again?")

    async def answer(request: Request) -> Answer:
        return Answer(id=request.id)

    def fn(request: ModelRequest) -> Message | str:
        return (
            assistant("", call("nag")) if request.turn == 1 else request.messages[-1].tool_results[0].output
        )

    async with Client(model=FunctionModel(fn), builtins=False, tools=[nag], on_request=answer) as c:
        assert (await c.ask("go")).text == "unresolved: again?"


async def test_a_handler_that_fails_or_mixes_up_ids_is_an_error_result() -> None:
    """[ASK-04] The tool is not run on an answer to another question."""

    async def wrong(request: Request) -> Answer:
        return Answer(id="req_other")

    async def raising(request: Request) -> Answer:
        raise OSError("no terminal")

    for handler, text in ((wrong, "req_other"), (raising, "no terminal")):
        async with Client(
            model=FunctionModel(deploying), builtins=False, tools=[deploy], on_request=handler
        ) as c:
            assert text in (await c.ask("go")).text


async def test_the_nearest_one_answers_and_one_question_is_asked_at_a_time() -> None:
    """[ASK-05] A child's question goes to its own handler, else up the tree; never two at once."""
    open_now = most = 0
    who: list[str] = []

    async def answer(name: str, request: Request) -> Answer:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        who.append(f"{name}:{(request.data or {})['path'][-1].split('.')[0]}")
        open_now -= 1
        return Answer(id=request.id, data=name)

    def fn(request: ModelRequest) -> Message | str:
        if request.turn > 1:
            return "ok"
        if request.agent == "main":
            return assistant("", *[call("task", agent=n, prompt="p") for n in ("own", "plain", "plain")])
        return assistant("", call("deploy", where="a"), call("deploy", where="b"))

    agents = [
        Agent(name="own", tools=["deploy"], on_request=lambda r: answer("mine", r)),
        Agent(name="plain", tools=["deploy"]),
    ]
    async with Client(
        model=FunctionModel(fn),
        builtins=False,
        tools=[deploy],
        agents=agents,
        on_request=lambda r: answer("host", r),
        budget=Budget(concurrency=1),
    ) as c:
        async with asyncio.timeout(5):
            result = await c.ask("go")
    assert result.status == "done"
    assert sorted(who) == ["host:plain"] * 4 + ["mine:own"] * 2
    assert most <= 2


async def test_clocks_stop_while_a_human_is_asked() -> None:
    """[ASK-06] A deadline does not run, and no slot is held, while an answer is awaited."""

    async def slow(request: Request) -> Answer:
        await asyncio.sleep(0.4)
        return Answer(id=request.id, data="late")

    async with Client(
        model=FunctionModel(deploying),
        builtins=False,
        tools=[deploy],
        on_request=slow,
        budget=Budget(seconds=0.2),
    ) as c:
        result = await c.ask("go")
    assert result.status == "done" and result.text == "deployed to prod: late"


async def test_clocks_run_on_where_they_stopped() -> None:
    """[ASK-06] After the last answer: the time that was left is left, and not more."""

    async def slow(request: Request) -> Answer:
        await asyncio.sleep(0.1)
        return Answer(id=request.id)

    @tool
    async def endless(ctx: ToolContext) -> str | ToolResult:
        """Ask, then never end."""
        if ctx.answer is None:
            return pending(kind="approval", prompt="go?")
        await asyncio.Event().wait()
        return ""

    model = FunctionModel(lambda request: assistant("", call("endless")))
    async with Client(
        model=model, builtins=False, tools=[endless], on_request=slow, budget=Budget(seconds=0.15)
    ) as c:
        async with asyncio.timeout(5):
            result = await c.ask("go")
    assert (result.status, result.limit) == ("incomplete", "seconds")


async def test_clocks_stand_still_until_the_last_question_is_answered() -> None:
    """[ASK-06] Several at once stop them once."""

    async def one_by_one(request: Request) -> Answer:
        await asyncio.sleep(0.1)
        return Answer(id=request.id, data="late")

    def fn(request: ModelRequest) -> Message | str:
        if request.turn > 1:
            return "end"
        return assistant("", *[call("deploy", id=f"d{n}", where="prod") for n in range(3)])

    async with Client(
        model=FunctionModel(fn),
        builtins=False,
        tools=[deploy],
        on_request=one_by_one,
        budget=Budget(seconds=0.15),
    ) as c:
        result = await c.ask("go")
    assert (result.status, result.text) == ("done", "end")


async def test_a_childs_question_makes_the_whole_run_pending() -> None:
    """[ASK-07] With nobody to answer, the question reaches the top with its path; siblings finish."""

    def fn(request: ModelRequest) -> Message | str:
        if request.agent == "main":
            tasks = [call("task", id=n, agent=n, prompt="p") for n in ("asks", "works")]
            return assistant("", *tasks)
        if request.agent == "asks":
            return assistant("", call("deploy", where="prod"))
        return "finished"

    agents = [Agent(name="asks", tools=["deploy"]), Agent(name="works")]
    async with Client(model=FunctionModel(fn), builtins=False, tools=[deploy], agents=agents) as c:
        result = await c.ask("go")
    assert result.status == "pending"
    (request,) = result.pending
    assert (request.data or {})["path"] == ["main", "asks.asks"]
    waiting, finished = result.messages[-1].tool_results
    assert waiting.output == "no answer yet to: deploy to prod?" and finished.output == "finished"


async def test_the_question_builtin_asks_the_user() -> None:
    """[ASK-08] The answers as given come back as JSON."""

    async def answer(request: Request) -> Answer:
        assert request.kind == "question"
        return Answer(id=request.id, data=["red"])

    def fn(request: ModelRequest) -> Message | str:
        questions = [{"question": "Which colour?", "options": ["red", "blue"]}]
        if request.turn == 1:
            return assistant("", call("question", questions=questions))
        return request.messages[-1].tool_results[0].output

    async with Client(model=FunctionModel(fn), builtins=["question"], on_request=answer) as c:
        assert (await c.ask("go")).text == '["red"]'
