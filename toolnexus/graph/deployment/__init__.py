"""Agents as a document: resources, the graphs over them, and what all of it shares, in one file.

`from toolnexus import graph`: `async with graph.deploy("deploy.yaml") as deployment:`.
"""

from toolnexus.graph.deployment.agent import DeployedAgent
from toolnexus.graph.deployment.deployment import Deployment, deploy
from toolnexus.graph.deployment.document import DeployError
from toolnexus.graph.deployment.resources import Dep, ResourceInput, ResourceRegistry
from toolnexus.graph.deployment.schema import deployment_schema

__all__ = [
    "Dep",
    "DeployError",
    "DeployedAgent",
    "Deployment",
    "ResourceInput",
    "ResourceRegistry",
    "deploy",
    "deployment_schema",
]
