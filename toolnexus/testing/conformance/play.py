"""Plays cases, whoever the driver is, and keeps what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from toolnexus.testing.conformance import said
from toolnexus.testing.conformance.compare import fits
from toolnexus.testing.conformance.driver import PROTOCOL
from toolnexus.testing.conformance.fixture import Data, complaint, features, is_expectation
from toolnexus.testing.conformance.links import Link, LinkError, OwnLink
from toolnexus.testing.conformance.script import Script, placed
from toolnexus.testing.conformance.session import Refused, Session, Unsupported

SECONDS = 10.0
"""A case that still waits after this time has failed."""
HELLO_SECONDS = 30.0
"""A driver that has not said hello after this time is none."""

Start = Callable[[], Awaitable[Link]]


@dataclass(slots=True)
class Played:
    """What happened in a case."""

    results: list[Data] = field(default_factory=list[Data])
    """What the steps gave."""
    files: dict[str, str] = field(default_factory=dict[str, str])
    """What is in the working folder at the end."""
    folder: str = ""
    script: Script | None = None
    build_error: str | None = None
    malformed: list[str] = field(default_factory=list[str])
    """Requests to the endpoint that are none."""
    unsupported: str | None = None
    """What the implementation says that it lacks."""
    broken: str | None = None
    """Why it came to no end that a host may see."""


class Player:
    """Plays cases one after the other on one driver, and on a new one after a case that broke it.

    `start` starts a driver. `hello` is what it says of itself.
    """

    def __init__(self, start: Start | None = None, *, seconds: float = SECONDS) -> None:
        self._start = start or _own
        self._seconds = seconds
        self._link: Link | None = None
        self._no_start: LinkError | None = None
        self.hello: Data = {}

    async def __aenter__(self) -> Player:
        """Raises `LinkError` when what was started is no driver, and `OSError` when nothing was."""
        await self._linked()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._drop(at_once=error is not None)

    async def play(self, case: Data) -> Played:
        """Play one case in a folder of its own. Raises nothing that an implementation does."""
        played = Played()
        if (lacking := self._lacks(case)) is not None:
            played.unsupported = lacking
            return played
        with TemporaryDirectory(prefix="conformance-") as name:
            played.folder = _laid_out(case.get("files", {}), name)
            try:
                async with asyncio.timeout(self._seconds):
                    await self._run(placed(case, played.folder), played)
            except TimeoutError:
                gates = played.script.gates if played.script is not None else {}
                came = {name: f"{gate.came} of {gate.parties}" for name, gate in gates.items()}
                played.broken = f"still waiting after {self._seconds:g} s; came to gates: {came}"
            except (LinkError, OSError) as error:
                played.broken = str(error)
            if played.broken is not None:
                await self._drop(at_once=True)
            played.files = _texts(Path(played.folder))
        return played

    def _lacks(self, case: Data) -> str | None:
        asked = features(case)
        return next((f for f in self.unsupported if f in asked and not is_expectation(f)), None)

    @property
    def unsupported(self) -> list[str]:
        """What the driver says that its implementation lacks."""
        return self.hello.get("unsupported", [])

    async def _run(self, case: Data, played: Played) -> None:
        async with AsyncExitStack() as stack:
            session = Session(await self._linked(), case)
            played.script, played.malformed = session.script, session.endpoint.malformed
            await stack.enter_async_context(session)
            try:
                await self._steps(case, played, session, stack)
            except Refused as refused:
                played.build_error = str(refused)
            except Unsupported as lacking:
                played.unsupported = str(lacking)
            await session.ask({"type": "end"}, "ended")

    async def _steps(self, case: Data, played: Played, session: Session, stack: AsyncExitStack) -> None:
        message = _setup(case, played.folder)
        if self.hello.get("endpoint") or "style" in message["client"] or _has(case, "style"):
            await stack.enter_async_context(session.endpoint)
            message["endpoint"] = session.endpoint.addresses
        await session.ask(message, "ready")
        open: Data = {}
        for step in case.get("run", ()):
            if step.get("restart"):
                await session.leave()
                await self._drop(at_once=True)
                session.join(await self._linked())
                await session.ask(message, "ready")
            session.endpoint.new_step()
            given = await _play(session, step, open)
            played.results.append(said.result(given["result"]))
            if "error" not in given:
                open = given

    async def _linked(self) -> Link:
        """The driver that runs, or a new one."""
        if self._no_start is not None:
            raise self._no_start
        if self._link is None:
            self._link = await self._start()
            try:
                self.hello = await _greeted(self._link)
            except LinkError as error:
                self._no_start = error
                await self._drop(at_once=True)
                raise
        return self._link

    async def _drop(self, *, at_once: bool) -> None:
        if self._link is not None:
            link, self._link = self._link, None
            await link.aclose(at_once=at_once)


async def play(case: Data, *, seconds: float = SECONDS) -> Played:
    """Play one case with this package's own driver."""
    async with Player(seconds=seconds) as player:
        return await player.play(case)


async def _own() -> Link:
    return OwnLink()


async def _greeted(link: Link) -> Data:
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            hello = await link.receive()
    except TimeoutError:
        raise LinkError(f"the driver said no hello in {HELLO_SECONDS:g} s") from None
    if hello.get("type") != "hello" or hello.get("protocol") != PROTOCOL:
        raise LinkError(f"the driver must begin with hello of protocol {PROTOCOL}, not {hello}")
    if (wrong := complaint(hello, "driver")) is not None:
        raise LinkError(f"the driver's hello is wrong: {wrong}")
    return hello


def _setup(case: Data, folder: str) -> Data:
    """The message that begins a case: what is declared, without what the runner keeps to itself."""
    tools = [
        {
            "name": tool["name"],
            "description": tool.get("description", f"The tool {tool['name']}."),
            "inputSchema": tool.get("inputSchema", {"type": "object"}),
        }
        for tool in case.get("tools", ())
    ]
    return {
        "type": "case",
        "name": case["name"],
        "workdir": folder,
        "client": _declared(case.get("client", {})),
        "agents": [_declared(agent) for agent in case.get("agents", ())],
        "tools": tools,
    }


def _declared(options: Data) -> Data:
    """Options in which the runner's own answers are but said to be there."""
    out = {key: value for key, value in options.items() if key not in ("answers", "shouldContinue")}
    if "answers" in options:
        out["onRequest"] = True
    if "shouldContinue" in options:
        out["shouldContinue"] = True
    return out


def _has(case: Data, key: str) -> bool:
    return any(key in step for step in case.get("run", ()))


async def _play(session: Session, step: Data, before: Data) -> Data:
    """Play one step. `before` is what the last one gave that was not refused. Gives what this one did."""
    keys = ("ask", "translate", "metrics", "conversation", "style")
    message = {"type": "step", **{key: step[key] for key in keys if key in step}}
    if "resume" in step:
        message |= {"resume": _answers(step["resume"], before), "snapshot": before.get("snapshot")}
    if "cancel" in step:
        session.script.gates[step["cancel"]].instead = session.cancel
    try:
        given = await session.ask(message, "result", "cancelled")
    except Refused as refused:
        return {"result": {"error": str(refused)}, "error": True}
    return {"result": {"cancelled": True}} if given["type"] == "cancelled" else given


def _answers(wanted: list[Data], before: Data) -> list[Data]:
    """The answers of a step, each to the first open question that it is for."""
    open: list[Data] = list(before.get("result", {}).get("pending") or ())
    out: list[Data] = []
    for answer in wanted:
        given: Data = {"ok": True, **{key: value for key, value in answer.items() if key != "to"}}
        if "id" not in given:
            chosen = next((q for q in open if fits(answer.get("to", {}), q)), None)
            if chosen is None:
                raise LinkError(f"no open question fits {answer}; open: {open}")
            open.remove(chosen)
            given["id"] = chosen["id"]
        out.append(given)
    return out


def _laid_out(files: dict[str, str], name: str) -> str:
    """Put the files of a case into the folder of that name. Gives its path without links."""
    folder = Path(name).resolve()
    for place, text in files.items():
        file = folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    return str(folder)


def _texts(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {f.relative_to(folder).as_posix(): f.read_bytes().decode(errors="replace") for f in files}
