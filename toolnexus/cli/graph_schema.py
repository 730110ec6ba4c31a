"""`toolnexus graph schema`: what an editor needs to check and complete a graph document."""

from __future__ import annotations

import json
from argparse import Namespace

from toolnexus.cli.exits import DONE
from toolnexus.graph import json_schema


def command(options: Namespace) -> int:
    """Print the schema. Gives the exit code."""
    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return DONE
