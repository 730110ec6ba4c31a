"""The built-in node types."""

from toolnexus.graph.nodes.agent import AGENT
from toolnexus.graph.nodes.inference import INFERENCE
from toolnexus.graph.nodes.script import SCRIPT
from toolnexus.graph.nodes.tool import TOOL
from toolnexus.graph.registry import NodeType

BUILT_IN: tuple[NodeType, ...] = (INFERENCE, TOOL, SCRIPT, AGENT)
