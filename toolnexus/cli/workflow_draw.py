"""`toolnexus workflow draw`: a workflow as a flowchart."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from toolnexus.cli.exits import DONE
from toolnexus.cli.named import named
from toolnexus.workflow import Node


def command(options: Namespace) -> int:
    """Print the Mermaid flowchart. Raises `UsageError` for what is no `MODULE:NAME` of a node."""
    kind: type[Node[Any, Any]] = Node
    print(named(options.target, kind, "workflow", "package.module:flow").to_mermaid())
    return DONE
