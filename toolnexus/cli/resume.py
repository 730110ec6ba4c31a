"""`toolnexus resume`: answers to what a conversation waits for, from the shell."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from toolnexus.cli import loop
from toolnexus.cli.answers import given_answers
from toolnexus.cli.exits import UsageError
from toolnexus.cli.lines import LineReader
from toolnexus.cli.person import Person
from toolnexus.cli.run import go_on, kept_client, show, told
from toolnexus.stores.address import is_address


def command(options: Namespace) -> int:
    """Go on with the run that waits; the exit code. Raises `UsageError` for a store that is not there."""
    if (place := options.store) is not None and not is_address(place) and not os.path.exists(place):
        raise UsageError(f"--store: there is no file {place!r}")
    return loop.run(_resume(options))


async def _resume(options: Namespace) -> int:
    answers = given_answers(options)
    person = Person(LineReader(sys.stdin), sys.stderr)
    async with await kept_client(options, person) as client:
        if answers or await client.conversation(options.conversation).pending():
            return await go_on(client, answers, options, person)
        return told(await show(client.stream_resume(options.conversation), options, person), options)
