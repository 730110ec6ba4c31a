"""Behaviour as a document: a declarative graph of nodes over a board, run wave by wave.

`from toolnexus import graph`: `graph.load("assistant.yaml", services=client.services)`.
"""

from typing import TYPE_CHECKING, Any

from toolnexus.core.messages import Message
from toolnexus.errors import ErrorKind
from toolnexus.graph.analyze import Finding
from toolnexus.graph.board import MAIN_CHANNEL, Board, BoardSnapshot
from toolnexus.graph.build import build
from toolnexus.graph.bus import EventBus
from toolnexus.graph.checkpoint import (
    CallRecord,
    Checkpoint,
    CheckpointStore,
    FileCheckpoints,
    MemoryCheckpoints,
)
from toolnexus.graph.checkpoint_sqlite import SqliteCheckpoints
from toolnexus.graph.context import NodeContext
from toolnexus.graph.definition import END, EdgeDef, GraphDefinition, NodeDef, validate
from toolnexus.graph.dot import to_dot
from toolnexus.graph.errors import (
    BudgetExceeded,
    GraphError,
    GraphRunError,
    Interrupted,
    Issue,
    RunEndPublishError,
)
from toolnexus.graph.graph import Graph, load
from toolnexus.graph.host import Host, Interrupt, RunInfo
from toolnexus.graph.inference.targets import Target
from toolnexus.graph.mermaid import to_mermaid
from toolnexus.graph.options import BranchResult, BuildOptions, MergeFn, ParallelOptions
from toolnexus.graph.registry import Handler, NodeType, Registry, Role
from toolnexus.graph.sandbox import Sandbox
from toolnexus.graph.schema import json_schema
from toolnexus.graph.scripts import JsRuntime, LuaRuntime
from toolnexus.graph.services import Services
from toolnexus.graph.workspace import Workspace

if TYPE_CHECKING:
    from toolnexus.graph.deployment import (
        Dep,
        DeployedAgent,
        DeployError,
        Deployment,
        ResourceInput,
        ResourceRegistry,
        deploy,
        deployment_schema,
    )

_DEPLOYMENT = frozenset(
    (
        "Dep",
        "DeployError",
        "DeployedAgent",
        "Deployment",
        "ResourceInput",
        "ResourceRegistry",
        "deploy",
        "deployment_schema",
    )
)


def __getattr__(name: str) -> Any:
    if name not in _DEPLOYMENT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from toolnexus.graph import deployment

    return getattr(deployment, name)


__all__ = [
    "END",
    "MAIN_CHANNEL",
    "Board",
    "BoardSnapshot",
    "BranchResult",
    "BudgetExceeded",
    "BuildOptions",
    "CallRecord",
    "Checkpoint",
    "CheckpointStore",
    "Dep",
    "DeployError",
    "DeployedAgent",
    "Deployment",
    "EdgeDef",
    "ErrorKind",
    "EventBus",
    "FileCheckpoints",
    "Finding",
    "Graph",
    "GraphDefinition",
    "GraphError",
    "GraphRunError",
    "Handler",
    "Host",
    "Interrupt",
    "Interrupted",
    "Issue",
    "JsRuntime",
    "LuaRuntime",
    "MemoryCheckpoints",
    "MergeFn",
    "Message",
    "NodeContext",
    "NodeDef",
    "NodeType",
    "ParallelOptions",
    "Registry",
    "ResourceInput",
    "ResourceRegistry",
    "Role",
    "RunEndPublishError",
    "RunInfo",
    "Sandbox",
    "Services",
    "SqliteCheckpoints",
    "Target",
    "Workspace",
    "build",
    "deploy",
    "deployment_schema",
    "json_schema",
    "load",
    "to_dot",
    "to_mermaid",
    "validate",
]
