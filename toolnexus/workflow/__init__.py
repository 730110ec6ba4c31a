"""Workflow nodes: typed steps in Python, on the same core as every other run.

What it is: an in-process call tree, `await node.run(input, ctx) -> output`. What it is not: another runner,
another context or another stream of events. Above: the client runs a node like an agent. Below: the engine.
"""

from toolnexus.runtime.context import SCRATCHPAD
from toolnexus.workflow.agent_step import AgentStep
from toolnexus.workflow.branches import FanOut, Parallel
from toolnexus.workflow.coordinator import CoordinatorStep, delegate_to
from toolnexus.workflow.fn import Fn
from toolnexus.workflow.loop import Loop
from toolnexus.workflow.node import Node, visit
from toolnexus.workflow.runners import RUNNER, AgentReply, AgentRunner, ModelRunner, with_runner
from toolnexus.workflow.scratchpad import Scratchpad, Slot
from toolnexus.workflow.seams import as_runnable, as_tool
from toolnexus.workflow.sequential import Sequential
from toolnexus.workflow.switch import Switch

__all__ = [
    "RUNNER",
    "SCRATCHPAD",
    "AgentReply",
    "AgentRunner",
    "AgentStep",
    "CoordinatorStep",
    "FanOut",
    "Fn",
    "Loop",
    "ModelRunner",
    "Node",
    "Parallel",
    "Scratchpad",
    "Sequential",
    "Slot",
    "Switch",
    "as_runnable",
    "as_tool",
    "delegate_to",
    "visit",
    "with_runner",
]
