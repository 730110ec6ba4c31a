"""The same workflows in packages that are installed beside us on request; see flows.py."""

from __future__ import annotations

from contextlib import AsyncExitStack
from importlib import import_module
from operator import add
from typing import Annotated, Any, TypedDict

from benchmarks.beside import Runs
from benchmarks.flows import step


class State(TypedDict):
    """Of a state graph: what is added to it by every node."""

    total: Annotated[int, add]


def langgraph(flow: str, stack: AsyncExitStack) -> Runs:
    """A state graph; branches are sent, and what they give is added up in the state."""
    graphs: Any = import_module("langgraph.graph")
    send: Any = import_module("langgraph.types").Send
    graph = graphs.StateGraph(State)

    async def node(state: State) -> Any:
        return {"total": await step(0)}

    if flow == "line":
        names = [f"n{n}" for n in range(1_000)]
        for name in names:
            graph.add_node(name, node)
        for first, second in zip([graphs.START, *names], [*names, graphs.END], strict=True):
            graph.add_edge(first, second)
    else:

        async def outer(state: State) -> Any:
            return {"total": 0}

        def hundred(state: State) -> Any:
            return [send("outer", {"total": 0})] * 100

        def twenty(state: State) -> Any:
            return [send("inner", {"total": 0})] * 20

        graph.add_node("outer", outer)
        graph.add_node("inner", node)
        graph.add_conditional_edges(graphs.START, hundred)
        graph.add_conditional_edges("outer", twenty)
        graph.add_edge("inner", graphs.END)
    compiled = graph.compile()

    async def run() -> int:
        return (await compiled.ainvoke({"total": 0}, {"recursion_limit": 2_000}))["total"]

    return run


def pydantic_graph(flow: str, stack: AsyncExitStack) -> Runs:
    """A graph that is built of steps; branches are mapped, twice, and joined."""
    graphs: Any = import_module("pydantic_graph")
    builder = graphs.GraphBuilder(input_type=object, output_type=int)
    given: Any = 0 if flow == "line" else [[0] * 20] * 100

    async def node(ctx: Any) -> int:
        return await step(ctx.inputs)

    async def same(ctx: Any) -> Any:
        return ctx.inputs

    if flow == "line":
        nodes = [builder.step(node, node_id=f"n{n}") for n in range(1_000)]
        ways = zip([builder.start_node, *nodes], [*nodes, builder.end_node], strict=True)
        builder.add(*[builder.edge_from(first).to(second) for first, second in ways])
    else:
        outer, inner = builder.step(same, node_id="outer"), builder.step(node, node_id="inner")
        joined = builder.join(graphs.reduce_sum, initial=0)
        builder.add(
            builder.edge_from(builder.start_node).map().to(outer),
            builder.edge_from(outer).map().to(inner),
            builder.edge_from(inner).to(joined),
            builder.edge_from(joined).to(builder.end_node),
        )
    graph = builder.build()

    async def run() -> int:
        return await graph.run(inputs=given)

    return run
