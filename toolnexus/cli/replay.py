"""`toolnexus replay`: a recorded run again, without model, network and key."""

from __future__ import annotations

import sys
from argparse import Namespace

from toolnexus.cli import loop
from toolnexus.cli.build import SYSTEM, given_options, make_client_of
from toolnexus.cli.exits import DONE, ERROR, INCOMPLETE, OF_STATUS, PENDING
from toolnexus.cli.lines import LineReader
from toolnexus.cli.person import Person
from toolnexus.cli.records import recorded_http_tools, recorded_run, recorded_servers
from toolnexus.cli.run import show
from toolnexus.models.records.replaying import ReplayingModel


def command(options: Namespace) -> int:
    """Play the record. Gives the exit code that the run had, or 1 when it is another run by now."""
    return loop.run(_play(options))


async def _play(options: Namespace) -> int:
    replay = ReplayingModel(options.file)
    asked, prompt = recorded_run(replay.record)
    given = given_options(asked) | {"model": replay, "hooks": [replay.tools], "store": None}
    servers = recorded_servers(replay.record)
    if servers or asked.config is not None:
        given["mcp"] = servers or None
    given["tools"] = recorded_http_tools(replay.record)
    if asked.config is None:
        given.setdefault("system_prompt", SYSTEM)
    async with make_client_of(asked, given) as client:
        result = await show(client.stream(prompt), options, Person(LineReader(sys.stdin), sys.stderr))
    code = OF_STATUS[result.status]
    if replay.left and code in (DONE, INCOMPLETE, PENDING):
        print(f"toolnexus: the record holds more than was asked: {'; '.join(replay.left)}", file=sys.stderr)
        return ERROR
    return code
