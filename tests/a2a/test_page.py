"""docs/a2a.md: what it shows about remote agents runs."""

import re
from pathlib import Path

import pytest

from tests.a2a.seen import Seen
from tests.warm import Warm
from toolnexus.config.document import Document
from toolnexus.testing import ScriptedEndpoint, Turn

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "a2a.md").read_text().partition("\n## Serving agents")[0]
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_program_of_the_page_runs(warm: Warm, base: str, seen: Seen, tmp_path: Path) -> None:
    """[A2A-40] It delegates to both agents, and runs the remote one without a model."""

    def answer(body: dict[str, object]) -> Turn:
        text = str(body["messages"])
        if "three anchors written" not in text:
            return Turn(text="an offer")
        if "echo: 80" in text:
            return Turn(text="The offer is written.")
        calls = [("pricing", "echo 80"), ("writer", "write")]
        return Turn(calls=[{"name": "task", "args": {"agent": a, "prompt": p}} for a, p in calls])

    program = PROGRAMS[0].replace("http://127.0.0.1:9999", f"{base}/v1")
    with ScriptedEndpoint(answer) as endpoint:
        environment = {"OPENAI_BASE_URL": endpoint.url, "PRICING_TOKEN": "secret-4711"}
        done = warm.run(program, cwd=tmp_path, env=environment, strict=True)
    assert (done.stdout, done.stderr) == ("The offer is written.\nanswer: What does an anchor cost?\n", "")
    assert {headers["authorization"] for headers in seen.of("/v1/rpc")} == {"Bearer secret-4711"}


def test_the_other_blocks_of_the_page_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """[A2A-40] The source of tools is a client, the document one that is read."""
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-nobody")
    place: dict[str, object] = {}
    exec(PROGRAMS[1], place)
    (document,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    import tomli

    made = Document.read(tomli.loads(document)).options()
    assert [agent.name for agent in made["agents"]] == ["pricing"] and made["tools"] == made["agents"]
    assert len(PROGRAMS) == 2
