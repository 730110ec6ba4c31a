"""A workflow as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolnexus.workflow.node import Node

_SHAPES = {"AgentStep": ('(["', '"])'), "Switch": ('{"', '"}')}
_PLAIN = ('["', '"]')


def mermaid(node: Node[Any, Any]) -> str:
    """`node` and everything below it; composites are boxes around their nodes."""
    return "\n".join(["flowchart TD", *_lines(node, "n", 1)])


def _lines(node: Node[Any, Any], id: str, depth: int) -> Iterator[str]:
    indent, kind = "  " * depth, type(node).__name__
    label = node.name if node.name.lower() == kind.lower() else f"{kind}: {node.name}"
    children = node.children
    if not children or kind == "CoordinatorStep":
        left, right = _SHAPES.get("AgentStep" if kind == "CoordinatorStep" else kind, _PLAIN)
        yield f"{indent}{id}{left}{_text(label)}{right}"
        for n, (way, child) in enumerate(children):
            yield from _lines(child, f"{id}_{n}", depth)
            yield f"{indent}{id} -.{_word(way)}.-> {id}_{n}"
        return
    yield f'{indent}subgraph {id}["{_text(label)}"]'
    if kind == "Sequential":
        yield f"{indent}  direction TB"
    for n, (way, child) in enumerate(children):
        yield from _lines(child, f"{id}_{n}", depth + 1)
        if way:
            yield f'{indent}  {id}_{n}w["{_text(way)}"] --> {id}_{n}'
    if kind == "Sequential":
        for n in range(len(children) - 1):
            yield f"{indent}  {id}_{n} --> {id}_{n + 1}"
    yield f"{indent}end"


def _word(way: str) -> str:
    return f" {_text(way)} " if way else "-"


def _text(text: str) -> str:
    """A label that says the same and closes nothing."""
    for char, entity in (("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("\n", " ")):
        text = text.replace(char, entity)
    return text
