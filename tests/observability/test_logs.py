"""Log lines: which logger says what, with which fields, and what they never say."""

import logging
from typing import Any

import pytest

from tests.observability.spans import tracing
from toolnexus import (
    Agent,
    Client,
    FunctionModel,
    Message,
    ModelHTTPError,
    ModelRequest,
    OpenAIModel,
    assistant,
    tool,
)
from toolnexus.models.retry import RetryPolicy
from toolnexus.runtime.redact import Redactor
from toolnexus.telemetry.choose import followers
from toolnexus.testing import ScriptedEndpoint, ScriptedModel, Turn, call, reply

pytestmark = pytest.mark.anyio

RESERVED = vars(logging.makeLogRecord({})).keys() | {"message", "asctime", "taskName"}


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (r.name.removeprefix("toolnexus."), r.getMessage().rpartition(", ")[0] or r.getMessage())
        for r in caplog.records
    ]


def fields(record: logging.LogRecord) -> dict[str, Any]:
    return {k: v for k, v in vars(record).items() if k not in RESERVED}


@tool
async def look(what: str) -> str:
    """Look."""
    return "RESULT"


def family(request: ModelRequest) -> Message | str:
    if request.turn > 1:
        return "REPLY"
    if request.agent == "main":
        return assistant("", call("task", id="t", agent="x", prompt="PROMPT2"))
    return assistant("", call("look", id="l", what="ARGUMENT"))


async def test_a_run_is_told_line_by_line(caplog: pytest.LogCaptureFixture) -> None:
    """[OBS-30] Start and end of runs, requests and calls, at DEBUG, from three loggers."""
    caplog.set_level(logging.DEBUG, "toolnexus")
    async with Client(
        model=FunctionModel(family, name="m"), builtins=False, agents=[Agent(name="x", tools=[look])]
    ) as client:
        await client.ask("PROMPT1")
    lines = [line for line in said(caplog) if line[0] in ("runs", "models", "tools")]
    starts = [(name, text) for name, text in lines if text.endswith("started")]
    assert starts == [
        ("runs", "main: run started"),
        ("models", "main: turn 1 of m started"),
        ("tools", "main: tool task (t) started"),
        ("runs", "main/x.t: run started"),
        ("models", "main/x.t: turn 1 of m started"),
        ("tools", "main/x.t: tool look (l) started"),
        ("models", "main/x.t: turn 2 of m started"),
        ("models", "main: turn 2 of m started"),
    ]
    assert len(lines) == 16 and {r.levelno for r in caplog.records} == {logging.DEBUG}
    assert ("tools", "main/x.t: tool look (l) ended: 6 characters") in lines
    assert lines[-1][1].startswith("main: run ended done: 2 turns, ")


async def test_lines_of_a_run_have_fields(caplog: pytest.LogCaptureFixture) -> None:
    """[OBS-31] `run_id`, `path`, `agent`, and `call_id` in a call, beside numbers for machines."""
    caplog.set_level(logging.DEBUG, "toolnexus")
    async with Client(
        model=FunctionModel(family, name="m"), builtins=False, agents=[Agent(name="x", tools=[look])]
    ) as client:
        await client.ask("PROMPT1")
    mine = [r for r in caplog.records if r.name in ("toolnexus.runs", "toolnexus.models", "toolnexus.tools")]
    assert len({fields(r)["run_id"] for r in mine}) == 1
    assert {fields(r)["path"] for r in mine} == {"main", "main/x.t"}
    ended = next(fields(r) for r in mine if r.name == "toolnexus.tools" and "6 characters" in r.getMessage())
    assert ended.pop("run_id") and ended.pop("seconds") >= 0
    assert ended == {
        "path": "main/x.t",
        "agent": "x",
        "call_id": "l",
        "tool": "look",
        "is_error": False,
        "characters": 6,
    }
    last = fields(mine[-1])
    assert (last["status"], last["turns"], last["limit"]) == ("done", 2, None) and last["tokens"] > 0


async def test_no_line_has_content(caplog: pytest.LogCaptureFixture) -> None:
    """[OBS-32] No prompt, reply, argument or result in any line or field, at any level."""
    caplog.set_level(logging.DEBUG)
    async with Client(
        model=FunctionModel(family), builtins=False, agents=[Agent(name="x", tools=[look])]
    ) as client:
        await client.ask("PROMPT1")
    text = " ".join(f"{r.getMessage()} {fields(r)}" for r in caplog.records)
    assert caplog.records and not [w for w in ("PROMPT", "REPLY", "ARGUMENT", "RESULT") if w in text]


async def test_without_a_reader_nothing_is_put_together() -> None:
    """[OBS-33] The levels are asked once per ask; off, nobody follows the run."""
    loggers = [logging.getLogger(f"toolnexus.{n}") for n in ("runs", "models", "tools")]
    assert not any(logger.isEnabledFor(logging.DEBUG) for logger in loggers)
    assert followers(None, Redactor()) is None
    loggers[0].setLevel(logging.DEBUG)
    try:
        assert followers(None, Redactor()) is not None
    finally:
        loggers[0].setLevel(logging.NOTSET)


async def test_one_logger_alone(caplog: pytest.LogCaptureFixture) -> None:
    """[OBS-33] Each of the three is on or off by itself."""
    caplog.set_level(logging.DEBUG, "toolnexus.tools")
    model = ScriptedModel([reply("", call("look", what="x")), reply("end")])
    async with Client(model=model, builtins=False, tools=[look]) as client:
        await client.ask("go")
    assert [name for name, _ in said(caplog)] == ["tools", "tools"]


async def test_failures_and_retries_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """[OBS-34] With type and status, never with the text of the error."""
    caplog.set_level(logging.DEBUG, "toolnexus.models")
    turns = [Turn(status=503, body="you sent PATIENTS"), Turn(status=400, body="you sent PATIENTS")]
    with ScriptedEndpoint(turns) as endpoint:
        policy = RetryPolicy(retries=1, base=0.001)
        model = OpenAIModel("m", base_url=endpoint.url, api_key="k" * 20, retries=policy)
        async with Client(model=model, builtins=False) as client:
            with pytest.raises(ModelHTTPError):
                await client.ask("go")
    lines = [text for name, text in said(caplog) if name == "models"]
    assert lines[1].startswith("main: turn 1 of m attempt 1 failed: ModelHTTPError 503; the next one in 0.0")
    assert lines[2] == "main: turn 1 of m failed: ModelHTTPError 400" and len(lines) == 3
    retry = fields(caplog.records[1])
    assert (retry["attempt"], retry["error"]) == (1, "ModelHTTPError") and "PATIENTS" not in caplog.text


async def test_lines_are_inside_the_spans(caplog: pytest.LogCaptureFixture) -> None:
    """[OBS-35] With both on, a line is written while its span is current, so hosts can join them."""
    from opentelemetry import trace

    inside: list[tuple[str, str]] = []

    class Note(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            span: Any = trace.get_current_span()
            inside.append((record.name, span.name))

    caplog.set_level(logging.DEBUG, "toolnexus")
    handler = Note()
    logging.getLogger("toolnexus").addHandler(handler)
    try:
        with tracing() as traced:
            model = ScriptedModel([reply("", call("look", what="x")), reply("end")])
            async with Client(model=model, builtins=False, tools=[look]) as client:
                await client.ask("go")
    finally:
        logging.getLogger("toolnexus").removeHandler(handler)
    assert set(inside) == {
        ("toolnexus.runs", "invoke_agent main"),
        ("toolnexus.models", "chat scripted"),
        ("toolnexus.tools", "execute_tool look"),
    }
    assert len(traced.all) == 4
