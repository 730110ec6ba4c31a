"""`toolnexus translate`: one chat completion request to any endpoint."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, cast

from toolnexus.cli import loop
from toolnexus.cli.build import given_key
from toolnexus.cli.detect import choose
from toolnexus.cli.exits import DONE, UsageError
from toolnexus.client import Client


def command(options: Namespace) -> int:
    """Send the request and write the completion. Raises `UsageError` for a file that holds none."""
    return loop.run(_translate(options))


async def _translate(options: Namespace) -> int:
    request = _request(options.file)
    found = choose(options.model, options.base_url, given_key(options))
    async with Client(
        model=found.spec, base_url=found.base_url, api_key=found.api_key, builtins=False
    ) as client:
        completion = await client.translate({k: v for k, v in request.items() if k != "model"})
    print(json.dumps(completion, ensure_ascii=False, indent=2))
    return DONE


def _request(file: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
        request: Any = json.loads(text)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read a request from {file!r}: {error}") from error
    if not isinstance(request, dict):
        raise UsageError(f"{file!r} holds no request: it must be a JSON object with 'messages'")
    return cast("dict[str, Any]", request)
