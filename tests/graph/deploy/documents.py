"""Documents and the registry that tests deploy them with."""

from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from toolnexus import Client, RunResult
from toolnexus.graph import (
    Board,
    Deployment,
    GraphError,
    NodeContext,
    NodeType,
    ResourceInput,
    ResourceRegistry,
    Role,
    deploy,
)

GREET = """
resources:
  greet:
    kind: graph.NodeType
    impl: greeting
    settings: {word: hi}
agents:
  asst:
    card: {name: Greeter, description: Says hi.}
    engine:
      kind: agent.Engine
      impl: graph
      deps: {node_type.greet: greet}
      settings:
        graph:
          name: greeter
          entry: hello
          nodes:
            - id: hello
              type: greet
              config: {name: "${board:user}"}
          edges:
            - {from: hello, to: __end__}
"""
"""An agent that greets `user` into `greeting`."""

Handler = Callable[[NodeContext, Board, Any], Any]


def greeting(given: ResourceInput) -> NodeType:
    """A node type in code."""

    async def greet(ctx: NodeContext, board: Board, config: Any) -> None:
        board["greeting"] = f"{given.settings['word']} {config['name']}"

    return NodeType(name="greet", handler=greet, writes=(Role.var("greeting", required=True),))


def registry(**handlers: Handler) -> ResourceRegistry:
    """The standard one, with `graph.NodeType/greeting`, and node types of these handlers as impls of their
    names."""
    made = ResourceRegistry.standard()
    made.register("graph.NodeType", "greeting", greeting, settings=dict)
    for name, handler in handlers.items():
        node_type = NodeType(name=name, handler=handler)
        made.register("graph.NodeType", name, lambda given, node_type=node_type: node_type)
    return made


def chain(*types: str, **more: str) -> dict[str, Any]:
    """A document whose agent `asst` runs nodes of these types, one after the other."""
    ids = [f"n{n}" for n in range(len(types))]
    return {
        "resources": {name: {"kind": "graph.NodeType", "impl": name} for name in types},
        "agents": {
            "asst": {
                "engine": {
                    "kind": "agent.Engine",
                    "impl": "graph",
                    "deps": {f"node_type.{name}": name for name in types},
                    "settings": {
                        "graph": {
                            "name": "chain",
                            "entry": ids[0],
                            "nodes": [{"id": id, "type": type} for id, type in zip(ids, types, strict=True)],
                            "edges": [
                                {"from": a, "to": b} for a, b in zip(ids, [*ids[1:], "__end__"], strict=True)
                            ],
                        }
                    },
                }
            }
        },
    }


def write(folder: Path, text: str, name: str = "deploy.yaml") -> Path:
    """A file of the folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text).lstrip("\n"))
    return path


def refused(source: Any, made: ResourceRegistry | None = None, **options: Any) -> GraphError:
    """The error that deploying gives."""
    try:
        deploy(source, registry=made or registry(), **options)
    except GraphError as error:
        return error
    raise AssertionError("it was deployed")


async def run(deployment: Deployment, input: Any, agent: str = "asst", **options: Any) -> RunResult:
    """One run of an agent under a client without tools or model."""
    client = Client(builtins=False, **options)
    try:
        return await client.run(deployment.agents[agent], input)
    finally:
        await client.aclose()


def changed(document: Mapping[str, Any], *path: str, to: Any) -> dict[str, Any]:
    """The document with another value at a path."""
    head, *rest = path
    held = document.get(head, {})
    return {**document, head: changed(held, *rest, to=to) if rest else to}
