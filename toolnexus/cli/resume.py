"""`toolnexus resume`: answers to what a conversation waits for, from the shell."""

from __future__ import annotations

import sys
from argparse import Namespace

from toolnexus.cli import loop
from toolnexus.cli.answers import given_answers
from toolnexus.cli.lines import LineReader
from toolnexus.cli.person import Person
from toolnexus.cli.run import go_on, kept_client, show, told


def command(options: Namespace) -> int:
    """Go on with the run that waits. Gives the exit code."""
    return loop.run(_resume(options))


async def _resume(options: Namespace) -> int:
    answers = given_answers(options)
    person = Person(LineReader(sys.stdin), sys.stderr)
    async with await kept_client(options, person) as client:
        if answers or await client.conversation(options.conversation).pending():
            return await go_on(client, answers, options, person)
        return told(await show(client.stream_resume(options.conversation), options, person), options)
