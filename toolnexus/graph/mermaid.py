"""A graph as a Mermaid flowchart."""

from __future__ import annotations

import toolnexus.graph
from toolnexus.graph.definition import END, GraphDefinition, NodeDef


def to_mermaid(definition: GraphDefinition | toolnexus.graph.Graph) -> str:
    """The definition, or that of a graph, as a Mermaid flowchart from top to bottom; conditions stand on the
    edges."""
    if not isinstance(definition, GraphDefinition):
        definition = definition.definition
    name = {node.id: f"n{n}" for n, node in enumerate(definition.nodes)}
    lines = ["flowchart TD", f"    start([start]) --> {name[definition.entry]}"]
    for node in definition.nodes:
        lines.append(f'    {name[node.id]}["{_label(node_label(node))}"]')
    if any(edge.to == END for edge in definition.edges):
        lines.append("    stop([end])")
    for edge in definition.edges:
        target = "stop" if edge.to == END else name[edge.to]
        if edge.condition:
            lines.append(f'    {name[edge.from_]} -- "{_label(edge.condition)}" --> {target}')
        else:
            lines.append(f"    {name[edge.from_]} --> {target}")
    return "\n".join(lines) + "\n"


def node_label(node: NodeDef) -> str:
    """What stands in a node, in lines: its id, its type, and when it is skipped."""
    lines = [node.id] if node.id == node.type else [node.id, node.type]
    if node.skip_condition:
        lines.append(f"skip if {node.skip_condition}")
    return "\n".join(lines)


def shown(text: str) -> str:
    """`text` without characters that no picture and no terminal should get, line ends excepted."""
    return "".join([c if c.isprintable() or c == "\n" else " " for c in text])


def _label(text: str) -> str:
    """`text` inside quotes of Mermaid."""
    out = shown(text).replace("#", "#35;").replace("&", "#amp;").replace('"', "#quot;")
    return out.replace("<", "#lt;").replace(">", "#gt;").replace("`", "#96;").replace("\n", "<br/>")
