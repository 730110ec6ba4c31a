"""`toolnexus run`: one ask, from the shell."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from toolnexus.cli import loop
from toolnexus.cli.answers import check_answers, tell_waiting
from toolnexus.cli.build import Change, is_kept, make_client
from toolnexus.cli.exits import DONE, OF_STATUS, PENDING, UsageError
from toolnexus.cli.lines import LineReader
from toolnexus.cli.person import Person
from toolnexus.cli.view.base import play
from toolnexus.cli.view.choose import choose_view
from toolnexus.cli.view.words import one_line, plural, printable
from toolnexus.client import Client
from toolnexus.core.messages import MediaPart
from toolnexus.core.result import RunResult
from toolnexus.core.suspension import Answer
from toolnexus.engine.stream import Stream
from toolnexus.errors import ConfigError


def command(options: Namespace) -> int:
    """Ask once. The answer goes to stdout, everything else to stderr. Gives the exit code."""
    prompt = prompt_text(options.prompt)
    if not prompt.strip():
        raise UsageError("the prompt is empty; give a text, or - to read it from standard input")
    return loop.run(_ask(options, [prompt, *[attached(file) for file in options.attach]]))


def prompt_text(given: str) -> str:
    """The prompt, from standard input where it is `-`. Raises `UsageError` for what is no text."""
    try:
        prompt = sys.stdin.read() if given == "-" else given
        prompt.encode()  # Python lets foreign bytes of arguments and of standard input through
    except UnicodeError:
        raise UsageError("the prompt is no UTF-8 text") from None
    return prompt


async def _ask(options: Namespace, prompt: Sequence[str | MediaPart]) -> int:
    person = Person(LineReader(sys.stdin), sys.stderr)
    recorded = None
    if options.record is not None:
        from toolnexus.cli.records import recorder

        recorded = recorder(options, prompt)
    async with await kept_client(options, person, recorded) as client:
        if options.conversation is not None:
            code = await go_on(client, [], options, person)
            if code != DONE:
                return code
        running = client.stream(prompt, conversation=options.conversation)
        return told(await show(running, options, person), options)


async def kept_client(options: Namespace, person: Person, recorded: Change | None = None) -> Client:
    """The client of a command that runs once. Raises `UsageError` when it would forget the conversation."""
    # A program that reads the events answers questions itself, and of a conversation anybody may later:
    # for these the run ends pending.
    later = options.json or (options.conversation is not None and not person.is_there)
    client, _ = make_client(options, None if later else person, recorded)
    if options.conversation is not None and not is_kept(client):
        await client.aclose()
        raise UsageError("a conversation is kept in a store: give --store PLACE, or a document with one")
    return client


async def go_on(client: Client, answers: list[Answer], options: Namespace, person: Person) -> int:
    """Go on with the run of the conversation that waits, if one does. Gives the exit code.

    What `answers` leave open is asked at the terminal before anything goes on; elsewhere it is told.
    """
    waiting = await client.conversation(options.conversation).pending()
    check_answers(answers, waiting)
    known = {answer.id for answer in answers}
    if person.is_there and not options.json:
        answers = [*answers, *[await person(request) for request in waiting if request.id not in known]]
    if waiting and not answers:
        tell_waiting(waiting, options)
        return PENDING
    if not answers:
        return DONE
    return told(await show(client.stream_resume(options.conversation, answers), options, person), options)


async def show(running: AbstractAsyncContextManager[Stream], options: Namespace, person: Person) -> RunResult:
    """Show a run as `options` say, its answer on stdout and how it ended on stderr."""
    answer = sys.stdout if sys.stdout.isatty() else None
    view = choose_view(sys.stderr, plain=options.plain, json=options.json, answer=answer)
    person.aside = view.aside
    began = time.monotonic()
    result = await play(running, view)
    if not view.answered:
        print(printable(result.text, keep="\n\t") if sys.stdout.isatty() else result.text)
    print(summary(result, time.monotonic() - began), file=sys.stderr)
    return result


def told(result: RunResult, options: Namespace) -> int:
    """The exit code of a run; what to type when it waits and is kept is said on stderr."""
    if result.pending and options.conversation is not None:
        tell_waiting(result.pending, options)
    return OF_STATUS[result.status]


def attached(file: str) -> MediaPart:
    """The image or file that goes with a prompt. Raises `UsageError`."""
    try:
        return MediaPart.from_file(file)
    except ConfigError as error:
        raise UsageError(f"cannot attach {file!r}: {error}") from error


def summary(result: RunResult, seconds: float) -> str:
    """How a run ended and what it took, in one line."""
    calls = result.tool_calls + result.sub_agent_tool_calls
    words = [result.status, plural(1 + count_below(result), "agent"), plural(calls, "tool call")]
    words += [plural(result.usage.total_tokens, "token"), f"{seconds:.1f} s"]
    if result.usage.cost is not None:
        words.insert(-1, f"${result.usage.cost:.4f}")
    if result.limits_hit:
        words[0] += f" ({', '.join(dict.fromkeys(str(hit) for hit in result.limits_hit))})"
    if result.pending:
        words[0] += f" ({'; '.join(one_line(request.prompt) for request in result.pending)})"
    return ", ".join(words)


def count_below(result: RunResult) -> int:
    """How many runs there were below this one."""
    return sum(1 + count_below(child) for child in result.sub_agents)
