"""What stands around the attempts of an agent: card, deadline, referees, what is prepared and committed."""

import asyncio
from typing import Any

import pytest

from tests.graph.deploy.documents import chain, changed, refused, registry, run
from toolnexus import Answer, Client, Outcome, RunContext
from toolnexus.graph import Board, Dep, Graph, NodeContext, ResourceInput, ResourceRegistry, deploy

pytestmark = pytest.mark.anyio


async def counts(ctx: NodeContext, board: Board, config: Any) -> None:
    """Each attempt adds one, and notes what the last message asks."""
    board["n"] = board.get("n", 0) + 1
    board["attempt"] = ctx.run.attempt
    if board.main:
        board.append_var("said", board.main[-1].text)


def hooked(log: list[Any], made: ResourceRegistry | None = None) -> ResourceRegistry:
    """A registry with hooks: `fill` sets a variable, `least` asks for more, `keep` notes the board."""
    made = made or registry(n=counts)

    def fill(given: ResourceInput) -> Any:
        async def prepare(board: Board) -> None:
            log.append(f"prepare {given.settings['value']}")
            board["filled"] = given.settings["value"]

        return prepare

    def least(given: ResourceInput) -> Any:
        def referee(board: Board) -> str | None:
            log.append(f"judge {board['n']}")
            return f"more than {board['n']}" if board["n"] < given.settings["least"] else None

        return referee

    def keep(given: ResourceInput) -> Any:
        def commit(board: Board) -> None:
            log.append(f"commit {board['n']}")

        return commit

    made.register("hook.prepare", "fill", fill, settings=dict)
    made.register("hook.referee", "least", least, settings=dict)
    made.register("hook.commit", "keep", keep)
    return made


def judged(least: int, max_revise: int) -> dict[str, Any]:
    """A document whose agent must come to `least`."""
    document = chain("n")
    document["agents"]["asst"] |= {
        "prepare": [{"type": "fill", "settings": {"value": 7}}],
        "referees": [{"type": "least", "settings": {"least": least}}],
        "commit": [{"type": "keep"}],
        "policy": {"max_revise": max_revise},
    }
    return document


async def test_a_card_is_how_others_see_the_agent() -> None:
    """[GR-513] Its name and description; without, the agent is called by its key."""
    document = changed(
        chain("n"), "agents", "asst", "card", to={"name": "The Counter", "description": "Counts."}
    )
    deployment = deploy(document, registry=registry(n=counts))
    agent = deployment.agents["asst"]
    assert (agent.name, agent.title, agent.description) == ("asst", "The Counter", "Counts.")
    assert isinstance(agent.engine, Graph)
    assert deploy(chain("n"), registry=registry(n=counts)).agents["asst"].title == "asst"
    assert "cards" in str(refused(changed(chain("n"), "agents", "asst", "cards", to={})))


async def test_a_referee_asks_for_another_attempt_until_it_is_content() -> None:
    """[GR-515] What it asks is said to the next attempt, which begins where the last one ended."""
    log: list[Any] = []
    async with deploy(judged(3, 2), registry=hooked(log)) as deployment:
        result = await run(deployment, {})
    assert result.status == "done"
    assert result.output == {"n": 3, "attempt": 3, "filled": 7, "said": ["more than 1", "more than 2"]}
    assert log == ["prepare 7", "judge 1", "judge 2", "judge 3", "commit 3"]
    assert [message.text for message in result.messages] == ["more than 1", "more than 2"]


async def test_a_revision_too_many_is_a_limit_and_nothing_is_committed() -> None:
    """[GR-515] `max_revise` counts the attempts behind the first one."""
    log: list[Any] = []
    async with deploy(judged(9, 1), registry=hooked(log)) as deployment:
        result = await run(deployment, {})
    assert (result.status, result.limit) == ("incomplete", "max_revise")
    assert result.limits_hit[0].value == 1
    assert log == ["prepare 7", "judge 1", "judge 2"]
    error = refused(changed(chain("n"), "agents", "asst", "policy", to={"max_revise": 1}), registry(n=counts))
    assert "nobody asks for a revision: it goes with `referees`" in str(error)


async def test_each_attempt_has_the_budgets_of_the_graph_to_itself() -> None:
    """[GR-515] A graph that may route one node may do so in every attempt."""
    document = changed(
        judged(3, 2), "agents", "asst", "engine", "settings", "build", to={"max_iterations": 1}
    )
    async with deploy(document, registry=hooked([])) as deployment:
        assert (await run(deployment, {})).output["n"] == 3


async def test_an_attempt_that_waits_uses_no_revision_up() -> None:
    """[GR-517] A run that asked somebody goes on in the same attempt, prepared once."""

    async def asks(ctx: NodeContext, board: Board, config: Any) -> None:
        answer = await ctx.ask_user({"parts": [{"type": "text", "text": "how many?"}]})
        assert answer is not None
        board["n"] = int(answer["parts"][0]["text"])
        board["attempt"] = ctx.run.attempt

    log: list[Any] = []
    async with (
        deploy(judged(3, 1), registry=hooked(log, registry(n=asks))) as deployment,
        Client(builtins=False) as client,
        asyncio.timeout(10),
    ):
        agent = deployment.agents["asst"]
        first = await client.run(agent, {})
        assert first.status == "pending"
        (asked,) = first.pending
        second = await client.resume(first, [Answer(id=asked.id, ok=True, data="1")], target=agent)
        assert second.status == "pending", "the referee wanted more, and the second attempt asks"
        (asked,) = second.pending
        result = await client.resume(second, [Answer(id=asked.id, ok=True, data="3")], target=agent)
    assert result.status == "done"
    assert result.output == {"n": 3, "attempt": 2, "filled": 7}
    assert log == ["prepare 7", "judge 1", "judge 3", "commit 3"]


async def test_an_attempt_begins_what_it_runs_anew() -> None:
    """[GR-517] An agent that the first attempt had to wait for is asked again by the second one."""

    async def asks(ctx: NodeContext, board: Board, config: Any) -> None:
        answer = await ctx.ask_user({"parts": [{"type": "text", "text": "how many?"}]})
        assert answer is not None
        board["n"] = int(answer["parts"][0]["text"])

    async def reads(ctx: NodeContext, board: Board, config: Any) -> None:
        board["n"] = board["got"]["n"]

    document = chain("asks")
    boss = chain("asks", "reads")["agents"]["asst"]
    config: dict[str, Any] = {"agent": "asst", "input": {}, "output_key": "got"}
    boss["engine"]["settings"]["graph"]["nodes"][0] = {"id": "n0", "type": "agent", "config": config}
    boss["engine"]["deps"].pop("node_type.asks")
    boss |= {"referees": [{"type": "least", "settings": {"least": 3}}], "policy": {"max_revise": 1}}
    document["agents"]["boss"] = boss
    document["resources"]["reads"] = {"kind": "graph.NodeType", "impl": "reads"}
    made = hooked([], registry(asks=asks, reads=reads))
    async with deploy(document, registry=made) as deployment, Client(builtins=False) as client:
        target = deployment.agents["boss"]
        result = await client.run(target, {})
        for text in ("1", "3"):
            assert result.status == "pending", text
            answers = [Answer(id=asked.id, ok=True, data=text) for asked in result.pending]
            result = await client.resume(result, answers, target=target)
    assert (result.status, result.output["n"]) == ("done", 3)


async def test_one_deadline_holds_for_attempts_referees_and_commits() -> None:
    """[GR-514] `run_timeout` ends whatever is under way, as a limit."""
    made = registry(n=counts)

    async def hangs(board: Board) -> None:
        await asyncio.Event().wait()

    for kind in ("prepare", "referee", "commit"):
        made.register(f"hook.{kind}", "hang", lambda given: hangs)
    for slot in ("prepare", "referees", "commit"):
        document = chain("n")
        document["agents"]["asst"] |= {slot: [{"type": "hang"}], "policy": {"run_timeout": "30ms"}}
        async with deploy(document, registry=made) as deployment, asyncio.timeout(10):
            result = await run(deployment, {})
        assert (result.status, result.limit) == ("incomplete", "seconds"), slot
    attempts: list[int] = []

    async def slow(ctx: NodeContext, board: Board, config: Any) -> None:
        attempts.append(ctx.run.attempt)
        await asyncio.sleep(0.02)
        board["n"] = 0

    document = changed(judged(9, 1000), "agents", "asst", "policy", "run_timeout", to="70ms")
    async with deploy(document, registry=hooked([], registry(n=slow))) as deployment, asyncio.timeout(10):
        result = await run(deployment, {})
    assert result.limit == "seconds"
    assert 1 < len(attempts) < 8


async def test_a_hook_that_fails_fails_the_run() -> None:
    """[GR-516] Its error comes out, and nothing behind it runs."""
    log: list[Any] = []
    made = hooked(log)

    def broken(given: ResourceInput) -> Any:
        def hook(board: Board) -> None:
            raise LookupError("no such thing")

        return hook

    made.register("hook.referee", "broken", broken)
    document = judged(1, 0)
    document["agents"]["asst"]["referees"].insert(0, {"type": "broken"})
    async with deploy(document, registry=made) as deployment:
        with pytest.raises(LookupError, match="no such thing"):
            await run(deployment, {})
    assert log == ["prepare 7"]


def test_a_hook_is_one_that_the_host_registered_and_takes_deps() -> None:
    """[GR-516] `type` names the impl; an unknown one, and a value that is no function, are refused."""
    seen: list[Any] = []
    made = registry(n=counts)
    made.register("memory", "x", lambda given: "memory")

    def make(given: ResourceInput) -> Any:
        seen.append(given.deps)
        return print

    made.register("hook.commit", "store", make, deps={"memory": Dep("memory", required=True)})
    made.register("hook.commit", "odd", lambda given: 3)
    document = chain("n")
    document["resources"]["mem"] = {"kind": "memory", "impl": "x"}
    document["agents"]["asst"]["commit"] = [{"type": "store", "deps": {"memory": "mem"}}]
    deploy(document, registry=made)
    assert seen == [{"memory": "memory"}]
    for entry, path, says in (
        ({"type": "stor"}, "commit[0].type", "hook.commit has no impl 'stor'; did you mean 'store'"),
        ({"type": "store"}, "commit[0].deps", "the dep 'memory' is missing"),
        ({"type": "odd"}, "commit[0]", "hook.commit is a function of the board"),
        ({"kind": "store"}, "commit[0].kind", "unknown key 'kind'; allowed: type, deps, settings"),
    ):
        document["agents"]["asst"]["commit"] = [entry]
        error = refused(document, made)
        assert any(i.path == f"agents.asst.{path}" and says in i.message for i in error.issues), error


class Echo:
    """A Runnable that is no graph."""

    name = "echo"
    description = "Says what it is asked."

    async def execute(self, input: Any, ctx: RunContext) -> Outcome:
        return Outcome(output=input)


async def test_an_engine_of_the_host_is_any_runnable() -> None:
    """[GR-519] It has the card and the deadline; hooks need a graph, and are refused with it."""
    made = hooked([])
    made.register("agent.Engine", "echo", lambda given: Echo())
    document: dict[str, Any] = {
        "agents": {"e": {"engine": {"kind": "agent.Engine", "impl": "echo"}, "policy": {"run_timeout": "5s"}}}
    }
    async with deploy(document, registry=made) as deployment:
        assert (await run(deployment, {"x": 1}, "e")).output == {"x": 1}
        assert deployment.agents["e"].description == "Says what it is asked."
    error = refused(changed(document, "agents", "e", "commit", to=[{"type": "keep"}]), made)
    assert "agents.e.commit: 'commit' goes with an engine that is a graph" in str(error)
