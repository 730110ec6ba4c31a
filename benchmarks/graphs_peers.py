"""The same graphs in packages that are installed beside us on request; see graphs.py."""

from __future__ import annotations

from contextlib import AsyncExitStack
from importlib import import_module
from operator import add
from typing import Annotated, Any, TypedDict

from benchmarks.beside import Runs
from benchmarks.graphs import LONG, ROUNDS, WIDE, step


class State(TypedDict):
    """Of a state graph: what is added to it by every branch, and by every round."""

    total: Annotated[int, add]
    rounds: Annotated[int, add]


def langgraph(work: str, stack: AsyncExitStack) -> Runs:
    """A state graph; what nodes give is added up in the state."""
    graphs: Any = import_module("langgraph.graph")
    graph = graphs.StateGraph(State)
    start, end = graphs.START, graphs.END

    async def node(state: State) -> Any:
        return {"total": await step(0)}

    async def turn(state: State) -> Any:
        return {"rounds": await step(0)}

    def again(state: State) -> str:
        return "n" if state["total"] < LONG else end

    def round_again(state: State) -> str:
        return "first" if state["rounds"] < ROUNDS else end

    def begin_round(state: State) -> Any:
        return {"rounds": 0}

    if work == "chain":
        names = [f"n{n}" for n in range(LONG)]
        for name in names:
            graph.add_node(name, node)
        for first, second in zip([start, *names], [*names, end], strict=True):
            graph.add_edge(first, second)
    elif work == "loop":
        graph.add_node("n", node)
        graph.add_edge(start, "n")
        graph.add_conditional_edges("n", again)
    else:
        names = [f"n{n}" for n in range(WIDE)]
        graph.add_node("first", begin_round)
        graph.add_node("last", turn)
        graph.add_edge(start, "first")
        for name in names:
            graph.add_node(name, node)
            graph.add_edge("first", name)
        graph.add_edge(names, "last")
        graph.add_conditional_edges("last", round_again)
    compiled = graph.compile()

    async def run() -> int:
        begin = {"total": 0, "rounds": 0}
        return (await compiled.ainvoke(begin, {"recursion_limit": 2 * LONG}))["total"]

    return run


def pydantic_graph(work: str, stack: AsyncExitStack) -> Runs:
    """A graph that is built of steps; branches are mapped and joined, decisions lead back."""
    graphs: Any = import_module("pydantic_graph")
    ran = [0]
    builder = graphs.GraphBuilder(input_type=object, output_type=object)

    async def node(ctx: Any) -> int:
        ran[0] = await step(ran[0])
        return ran[0]

    async def first(ctx: Any) -> Any:
        return [0] * WIDE

    begin, end, edge = builder.start_node, builder.end_node, builder.edge_from
    if work == "chain":
        nodes = [builder.step(node, node_id=f"n{n}") for n in range(LONG)]
        ways = zip([begin, *nodes], [*nodes, end], strict=True)
        builder.add(*[edge(one).to(other) for one, other in ways])
    else:
        most = LONG if work == "loop" else WIDE * ROUNDS

        def more(value: object) -> bool:
            return ran[0] < most

        one = builder.step(node, node_id="n")
        back = one if work == "loop" else builder.step(first, node_id="first")
        decision = (
            builder.decision()
            .branch(builder.match(object, matches=more).to(back))
            .branch(builder.match(object).to(end))
        )
        if work == "loop":
            builder.add(edge(begin).to(one), edge(one).to(decision))
        else:
            joined = builder.join(graphs.reduce_sum, initial=0, preferred_parent_fork="closest")
            builder.add(
                edge(begin).to(back),
                edge(back).map().to(one),
                edge(one).to(joined),
                edge(joined).to(decision),
            )
    graph = builder.build()

    async def run() -> int:
        ran[0] = 0
        await graph.run(inputs=0)
        return ran[0]

    return run
