"""The file of a record: what stands in it, what is refused, and what may be edited."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.records.test_record import PNG, lines, play, record
from toolnexus.core.messages import MediaPart, TextPart
from toolnexus.errors import ConfigError
from toolnexus.testing import RecordingModel, ReplayingModel, ReplayMismatch, ScriptedModel, call, reply

pytestmark = pytest.mark.anyio


async def test_the_file_is_readable_says_each_thing_once_and_holds_no_secret(tmp_path: Path) -> None:
    """[RP-07] JSON lines with a version; a line for each request with what is new in it and its reply, for
    each offer of tools and each call; only its owner may read it. Secrets are masked, media in requests are
    kept by digest."""
    file = tmp_path / "run.jsonl"
    secret = "sk-very-secret-123456"

    class Keyed(ScriptedModel):
        secrets = (secret,)

    image = MediaPart("image/png", data=base64.b64encode(PNG).decode(), name="dot.png")
    model = Keyed([reply(call("look", q=f"x {secret}")), reply(call("look", q="y")), "grün ✓ \ud800"])
    await record(file, model, prompt=[TextPart(f"my key is {secret}"), image])
    text = file.read_text(encoding="utf-8")
    assert secret not in text and image.data is not None and image.data not in text
    assert file.stat().st_mode & 0o777 == 0o600
    found = lines(file)
    assert [line["type"] for line in found] == [
        "record",
        "tools",
        "request",
        "tool",
        "request",
        "tool",
        "request",
    ]
    assert found[0] == {"type": "record", "v": 1, "model": "scripted"}
    first, second, third = (line for line in found if line["type"] == "request")
    assert (
        first["messages"][0]["parts"][1]["bytes"] == len(PNG) and "sha256" in first["messages"][0]["parts"][1]
    )
    assert second["after"] == first["n"] and [m["role"] for m in second["messages"]] == ["tool"]
    assert "system" not in second and "tools" not in second and "keep" not in third
    assert text.count("found y") == 2  # the result, and the request that it went into


async def test_a_record_takes_the_place_of_a_record_only(tmp_path: Path) -> None:
    """[RP-08] Recording again replaces a record; a file that is none is left as it was."""
    file, other = tmp_path / "run.jsonl", tmp_path / "notes.md"
    other.write_text("# Notes\n")
    for _ in range(2):
        await record(file, ScriptedModel(["end"]))
    assert len([line for line in lines(file) if line["type"] == "record"]) == 1
    for path, why in (
        (other, "no record of a run; it is left alone"),
        (tmp_path / "no" / "x", "No such file"),
    ):
        with pytest.raises(ConfigError, match=why):
            RecordingModel(ScriptedModel([]), path)
    assert other.read_text() == "# Notes\n"


BROKEN = {
    "": "is no record of a run",
    "# Notes": "line 1: no record of a run",
    "[1]\n": "line 1: no record of a run",
    '{"type": "record", "v": 2}': "of version 2; this release reads 1",
    '{"type": "record", "v": 1}\n{"type": "new"}\n': "line 2: not understood: .*'new'",
    '{"type": "record", "v": 1}\n{"type": "request", "n": 1}\n': "line 2: not understood: KeyError",
    '{"type": "record", "v": 1}\nnonsense\n{}\n': "line 2: no JSON object",
}


@pytest.mark.parametrize(("content", "why"), BROKEN.items(), ids=range(len(BROKEN)))
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, content: str, why: str) -> None:
    """[RP-08] With its name, the line, and what is wrong there."""
    file = tmp_path / "run.jsonl"
    file.write_text(content)
    with pytest.raises(ConfigError, match=why) as caught:
        ReplayingModel(file)
    assert str(file) in str(caught.value)
    with pytest.raises(ConfigError, match="cannot read the record"):
        ReplayingModel(tmp_path / "none.jsonl")


async def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    """[RP-08] A process that died while it wrote leaves what was complete."""
    file = tmp_path / "run.jsonl"
    await record(file, ScriptedModel([reply(call("look", q="x")), "end"]))
    content = file.read_bytes()
    file.write_bytes(content[:-40])
    with pytest.raises(ReplayMismatch, match="the record ends at turn 1"):
        await play(file)


async def test_a_reply_may_be_edited_by_hand(tmp_path: Path) -> None:
    """[RP-07] The next request of the run is expected with the new reply in it."""
    file = tmp_path / "run.jsonl"
    await record(file, ScriptedModel([reply("I look", call("look", q="x")), "end"]))
    file.write_text(file.read_text().replace("I look", "Let me see"))
    second = await play(file)
    assert [m.text for m in second.messages if m.role == "assistant"] == ["Let me see", "end"]
