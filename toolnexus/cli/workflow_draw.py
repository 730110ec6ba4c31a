"""`toolnexus workflow draw`: a workflow as a flowchart."""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import reduce
from importlib import import_module
from typing import Any, cast

from toolnexus.cli.exits import DONE, UsageError
from toolnexus.core.names import did_you_mean
from toolnexus.workflow import Node


def command(options: Namespace) -> int:
    """Print the Mermaid flowchart. Raises `UsageError` for what is no `MODULE:NAME` of a node."""
    print(_node(options.target).to_mermaid())
    return DONE


def _node(target: str) -> Node[Any, Any]:
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise UsageError(f"{target!r} must look like package.module:flow")
    if "" not in sys.path and "." not in sys.path:  # as with `python -m`: what lies here can be named
        sys.path.insert(0, "")
    try:
        found: Any = import_module(module)
    except Exception as error:
        raise UsageError(f"cannot import {module!r}: {type(error).__name__}: {error}") from error
    try:
        node: Any = reduce(getattr, name.split("."), found)
    except AttributeError:
        nodes = [key for key in dir(found) if isinstance(getattr(found, key, None), Node)]
        near = did_you_mean(name, nodes)
        raise UsageError(f"{module!r} has no {name!r}; its workflows: {nodes}{near}") from None
    if not isinstance(node, Node):
        raise UsageError(f"{target!r} is {type(node).__name__}, no workflow node")
    return cast("Node[Any, Any]", node)
