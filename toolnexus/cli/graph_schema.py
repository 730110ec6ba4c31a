"""`toolnexus graph schema`: what an editor needs to check and complete a graph or deployment document."""

from __future__ import annotations

import json
from argparse import Namespace

from toolnexus.cli.exits import DONE
from toolnexus.graph import deployment_schema, json_schema


def command(options: Namespace) -> int:
    """Print the schema. Gives the exit code."""
    schema = deployment_schema() if options.deployment else json_schema()
    print(json.dumps(schema, indent=2, ensure_ascii=False))
    return DONE
