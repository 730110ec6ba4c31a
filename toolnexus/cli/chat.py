"""`toolnexus chat`: a conversation at the terminal."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from importlib.util import find_spec
from typing import Any

from toolnexus.cli import loop
from toolnexus.cli.answers import tell_waiting
from toolnexus.cli.build import is_kept, make_client
from toolnexus.cli.exits import DONE, PENDING, UsageError
from toolnexus.cli.line_history import line_history
from toolnexus.cli.lines import LineReader
from toolnexus.cli.listing import lacking, table
from toolnexus.cli.person import Person
from toolnexus.cli.run import attached, summary
from toolnexus.cli.view.base import play
from toolnexus.cli.view.choose import choose_view
from toolnexus.cli.view.words import plural, printable
from toolnexus.client import Client
from toolnexus.core.messages import MediaPart
from toolnexus.engine.stream import Stream
from toolnexus.errors import ToolnexusError

PROMPT = "> "
HELP = """/tools    what the model may use      /attach FILE  an image or a file for the next prompt
/agents   whom it may delegate to     /new          forget this conversation, begin another
/history  what was said so far        /quit         leave (Ctrl-D, too)
Ctrl-C stops the answer that is on its way."""
MOST_HISTORY = 500
"""Characters of one message that /history shows."""

Ask = Callable[[], Awaitable[str | None]]
"""Gives the next line, or None at the end."""


def command(options: Namespace) -> int:
    """Talk until the person leaves. Gives the exit code."""
    return loop.run(_chat(options))


async def _chat(options: Namespace) -> int:
    lines = LineReader(sys.stdin)
    person = Person(lines, sys.stderr)
    client, model = make_client(options, person)
    async with client:
        talk = _Talk(options, client, person)
        _tell(f"{model}; /help for help, Ctrl-D to leave")
        if is_kept(client):
            path = options.store or getattr(client.store, "path", options.config)
            where = getattr(client.store, "where", path)  # an address may hold a password
            _tell(f"conversation {talk.conversation!r} in {where}")
        next_line = _prompt_toolkit() if lines.is_terminal and sys.stdout.isatty() else None
        running = asyncio.get_running_loop()
        if options.conversation is not None and not person.is_there:
            if waiting := await client.conversation(options.conversation).pending():
                tell_waiting(waiting, options)
                return PENDING
        if lines.is_terminal:  # one handler from the first prompt to the last: between two would be a gap
            running.add_signal_handler(signal.SIGINT, talk.interrupt)
        try:
            await talk.settle()
            await _converse(talk, next_line or _plain_lines(lines))
        finally:
            running.remove_signal_handler(signal.SIGINT)
    return DONE


async def _converse(talk: _Talk, next_line: Ask) -> None:
    while (line := await next_line()) is not None:
        if not await talk.take(line.strip()):
            return


class _Talk:
    """One chat: what a typed line does."""

    def __init__(self, options: Namespace, client: Client, person: Person) -> None:
        self._options = options
        self._client = client
        self._person = person
        self.conversation: str = options.conversation or f"chat-{secrets.token_hex(4)}"
        self._asking: asyncio.Task[None] | None = None
        self._attached: list[MediaPart] = []

    def interrupt(self) -> None:
        """Ctrl-C: stop the answer on its way; at the prompt, say how to leave."""
        if self._asking is not None:
            self._asking.cancel()
        else:
            _show(f"\n(Ctrl-D leaves)\n{PROMPT}")

    async def take(self, line: str) -> bool:
        """Obey a command or ask the model. False: leave."""
        match line:
            case "":
                pass
            case "/quit" | "/exit":
                return False
            case "/help":
                _tell(HELP)
            case "/tools":
                _tell(tools_of(self._client))
            case "/agents":
                _tell("\n".join(table([(a.name, a.description) for a in self._client.agents])) or "no agents")
            case "/history":
                _tell(await self._history())
            case _ if line.split()[0] == "/attach":
                self._attach(line.removeprefix("/attach").strip())
            case "/new":
                self.conversation = f"chat-{secrets.token_hex(4)}"
                self._attached = []
                _tell(f"a new conversation, {self.conversation!r}, with nothing attached")
            case _ if line.startswith("/"):
                _tell(f"there is no command {line.split()[0]!r}; /help lists them")
            case _:
                await self._answer(line)
        return True

    def _attach(self, file: str) -> None:
        if not file:
            _tell("which file? /attach FILE")
            return
        try:
            part = attached(file)
        except UsageError as error:
            _tell(str(error))
            return
        self._attached.append(part)
        _tell(f"{part.name} ({part.mime_type}) goes with the next prompt")

    async def _history(self) -> str:
        """The conversation so far: who said what, and which tools were called."""
        lines: list[str] = []
        for message in await self._client.conversation(self.conversation).messages():
            if message.text:
                said = (
                    message.text if len(message.text) <= MOST_HISTORY else message.text[:MOST_HISTORY] + "…"
                )
                lines.append(f"{PROMPT if message.role == 'user' else ''}{said}")
            if message.tool_calls:
                lines.append(f"  ({', '.join(call.name for call in message.tool_calls)})")
        return "\n".join(lines) or "nothing was said yet"

    async def _attach_again(self, parts: Sequence[str | MediaPart]) -> None:
        """Keep for the next prompt what a failed one did not bring into the conversation."""
        try:
            messages = await self._client.conversation(self.conversation).messages()
        except ToolnexusError:
            messages = ()
        said = [part for message in messages for part in message.parts]
        self._attached = [part for part in parts if isinstance(part, MediaPart) and part not in said]
        for part in self._attached:
            _tell(f"{part.name} goes with the next prompt")

    async def _answer(self, prompt: str) -> None:
        """Show one answer; what the conversation waits for is asked first."""
        parts, self._attached = [prompt, *self._attached], []
        running = self._client.stream(parts, conversation=self.conversation)
        if not (await self.settle() and await self._stoppable(self._show(running))):
            await self._attach_again(parts)

    async def settle(self) -> bool:
        """Ask what the conversation waits for and go on with it. False: it was stopped, or failed."""
        return await self._stoppable(self._go_on())

    async def _go_on(self) -> None:
        waiting = await self._client.conversation(self.conversation).pending()
        if not waiting:
            return
        _tell(f"this conversation waits for {plural(len(waiting), 'answer')}")
        self._person.aside = nullcontext
        answers = [await self._person(request) for request in waiting]
        await self._show(self._client.stream_resume(self.conversation, answers))

    async def _show(self, running: AbstractAsyncContextManager[Stream]) -> None:
        view = choose_view(sys.stderr, plain=self._options.plain, json=False, answer=sys.stdout)
        self._person.aside = view.aside
        began = time.monotonic()
        result = await play(running, view)
        if not view.answered:
            print(printable(result.text, keep="\n\t"))
        _tell(summary(result, time.monotonic() - began))

    async def _stoppable(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether it came to its end. Ctrl-C stops it; what was done until then stays in the conversation."""
        self._asking = asyncio.create_task(work)
        try:
            await self._asking
        except ToolnexusError as error:
            _tell(f"failed: {error}")
            return False
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # it is us who are stopped
                raise
            _tell("stopped")
            return False
        finally:
            self._asking = None
        return True


def tools_of(client: Client) -> str:
    """What the model may use, one source a line, and what is not there."""
    by_source: dict[str, list[str]] = {}
    for tool in client.toolkit:
        by_source.setdefault(tool.origin or tool.source, []).append(tool.name)
    lines = [f"{source}: {', '.join(names)}" for source, names in sorted(by_source.items())]
    lines += [f"missing: {line}" for line in lacking(client)]
    return "\n".join(lines) or "no tools"


def _plain_lines(lines: LineReader) -> Ask:
    """Lines as the terminal or a pipe gives them."""

    async def ask() -> str | None:
        if lines.is_terminal:
            _show(PROMPT)
        return await lines.line()

    return ask


def _prompt_toolkit() -> Ask | None:
    """Lines with editing and history, when the package for it is installed."""
    if find_spec("prompt_toolkit") is None:
        return None
    from prompt_toolkit import PromptSession

    session: PromptSession[Any] = PromptSession(history=line_history())

    async def ask() -> str | None:
        while True:
            try:
                return await session.prompt_async(PROMPT, handle_sigint=False)
            except EOFError:
                return None
            except KeyboardInterrupt:
                _tell("(Ctrl-D leaves)")

    return ask


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _tell(text: str) -> None:
    _show(printable(text, keep="\n\t") + "\n")
