"""A graph in the language of Graphviz."""

from __future__ import annotations

from toolnexus.graph.definition import END, GraphDefinition
from toolnexus.graph.mermaid import node_label, shown

_STYLE = (
    'graph [nodesep="0.5", ranksep="0.6", fontname="Arial"];',
    'node [shape="box", style="rounded,filled", fillcolor="#eef2f7", color="#64748b", fontname="Arial", '
    'fontsize="12", margin="0.2,0.1"];',
    'edge [color="#475569", fontname="Arial", fontsize="10", arrowsize="0.8"];',
)
_ROUND = 'shape="oval", fillcolor="#ffffff"'


def to_dot(definition: GraphDefinition) -> str:
    """The definition as a digraph in DOT, from top to bottom; conditions stand on the edges."""
    name = {node.id: f"n{n}" for n, node in enumerate(definition.nodes)}
    lines = [f"digraph {_quoted(definition.name)} {{", *[f"    {line}" for line in _STYLE]]
    lines.append(f'    start [label="start", {_ROUND}];')
    for node in definition.nodes:
        lines.append(f"    {name[node.id]} [label={_quoted(node_label(node))}];")
    if any(edge.to == END for edge in definition.edges):
        lines.append(f'    stop [label="end", {_ROUND}];')
    lines.append(f"    start -> {name[definition.entry]};")
    for edge in definition.edges:
        target = "stop" if edge.to == END else name[edge.to]
        label = f" [label={_quoted(f' {edge.condition} ')}]" if edge.condition else ""
        lines.append(f"    {name[edge.from_]} -> {target}{label};")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    escaped = shown(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
