"""The driver protocol over real processes: ours, one that misbehaves, and the public port."""

import asyncio
import importlib.util
import json
import os
import re
import shlex
import signal
import sys
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest

from toolnexus.cli.main import main as cli
from toolnexus.testing.conformance.command import command
from toolnexus.testing.conformance.expectations import mismatches
from toolnexus.testing.conformance.fixture import find, home, label, load, validator
from toolnexus.testing.conformance.links import Link, ProcessLink
from toolnexus.testing.conformance.play import Player

ROOT = home().parent
HERE = Path(__file__).parent
OURS = f"{sys.executable} -m toolnexus.testing.conformance.driver"
BROKEN = [sys.executable, "-S", str(HERE / "broken_driver.py")]
PORT = "TOOLNEXUS_PUBLIC_PORT"
"""The command of the public port's driver, as make_public_port.py prints it."""

Case = dict[str, Any]


def case(name: str, **more: Any) -> Case:
    """A case in which a driver is asked once."""
    return {"name": name, "tools": [{"name": "probe"}], "replies": [{}], "run": [{"ask": "go"}], **more}


def broken(seconds: float = 10) -> Player:
    async def start() -> Link:
        return await ProcessLink.start(BROKEN)

    return Player(start, seconds=seconds)


def written(folder: Path, *cases: Case) -> str:
    file = folder / "fixture.json"
    file.write_text(json.dumps({"version": 1, "about": "a", "cases": cases}))
    return str(file)


def outcomes(text: str) -> list[tuple[str, str]]:
    return [(row["case"], row["outcome"]) for row in map(json.loads, text.splitlines())]


@pytest.mark.exhaustive
def test_our_driver_in_a_process_gives_what_it_gives_beside_the_runner(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """[FIX-13] Resume over a killed process, cancel, gates, an endpoint, a build error: all hold there."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    chosen = [
        "sub-agents/resume: the same in another process*",
        "sub-agents/resume: several questions*",
        "sub-agents/cancel: a conversation keeps*",
        "subagent-fanout: two tasks*",
        "subagent-limits: never more than four*",
        "agent-registry: two agents of one name are*",
        "contract/translation: a conversation that began in the a*",
        "contract/skills: at most ten*",
    ]
    assert cli(["conformance", "--driver", OURS, "--only", "|".join(chosen)]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == len(chosen) and all(line.startswith("ok ") for line in lines)
    assert "8 cases, 0 partly, 0 failed, 0 unsupported" in last


WRONG = [
    ("garbage", "wrote what is no message: Traceback"),
    ("a list", "wrote what is no message: [1, 2]"),
    ("no text", "wrote what is no message"),
    ("endless", "a line of more than"),
    ("a maze", "wrote what is no message: [[[["),
    ("no type", "wrong message: $: 'type' is a required property"),
    ("a wrong key", "wrong message: $.messages: 'all of them'"),
    ("an id twice", "asked twice with the id 7"),
    ("another tool", "asked for the tool 'nobody declared it', which the case does not declare"),
    ("another's question", "nobody"),
    ("another step", "said 'ended' after 'step'"),
    ("death", "ended with code 3; out of memory"),
    ("its own failure", "raised ZeroDivisionError()"),
    ("no end", "said 'refused' after 'end'"),
]


@pytest.mark.anyio
async def test_whatever_a_driver_does_the_case_fails_and_the_next_one_is_played() -> None:
    """[FIX-14] The reason is in the line; after each there is a new driver, and none is left behind."""
    pids: list[int] = []
    async with broken() as player:
        for how, reason in WRONG:
            pids.append(int(player.hello["version"]))
            wrong = list(mismatches(case(how), await player.play(case(how))))
            assert wrong and reason in wrong[0], (how, wrong)
            good = await player.play(case("fine", run=[{"ask": "go", "expect": {"text": "fine"}}]))
            assert list(mismatches(case("fine"), good)) == [] and good.results[0]["text"] == "fine"
            assert int(player.hello["version"]) not in pids
        pids.append(int(player.hello["version"]))
    assert [pid for pid in pids if _group(pid)] == []


@pytest.mark.anyio
async def test_a_silent_driver_fails_its_case_in_time() -> None:
    """[FIX-14] The time of a case bounds it, whatever the driver waits for."""
    pids: list[int] = []
    async with broken(seconds=0.3) as player:
        for how in ("silence", "a child that stays"):
            await player.play(case("fine"))
            pids.append(int(player.hello["version"]))
            (line,) = mismatches(case(how), await player.play(case(how)))
            assert "still waiting after 0.3 s" in line
    assert [pid for pid in pids if _group(pid)] == []


@pytest.mark.anyio
async def test_what_leaves_the_group_of_a_driver_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[FIX-14] It keeps the pipes open, and nobody waits for it; none of ours stay open."""
    child = tmp_path / "child"
    monkeypatch.setenv("BROKEN_CHILD", str(child))
    before = len(os.listdir("/proc/self/fd"))
    async with asyncio.timeout(20), broken(seconds=0.3) as player:
        how = case("a child that leaves")
        (line,) = mismatches(how, await player.play(how))
        assert "still waiting after 0.3 s" in line
        assert (await player.play(case("fine"))).results[0]["text"] == "fine"
    assert len(os.listdir("/proc/self/fd")) == before
    os.kill(int(child.read_text()), signal.SIGKILL)  # which was there all the time


def test_a_driver_steers_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """[FIX-25] What it calls itself, and what it says, is shown as text, on one line."""
    driver = tmp_path / "driver.py"
    text = (HERE / "broken_driver.py").read_text()
    driver.write_text(text.replace('name="broken"', r'name="\x1b[31mred\nname" + "x" * 500'))
    file = written(tmp_path, case("\x1b[32m", run=[{"ask": "go", "expect": {"text": "other"}}]))
    for form in ((), ("--markdown",)):
        assert cli(["conformance", file, *form, "--driver", f"{sys.executable} -S {driver}"]) == 1
        shown = capsys.readouterr().out
        assert "\x1b" not in shown and "red name" in shown and "x" * 200 not in shown and "got" in shown


def _group(pid: int) -> bool:
    """Whether a process of that group is left."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = stat.read_text().rsplit(")", 1)[1].split()[:3]
        except OSError:
            continue
        if int(group) == pid and state != "Z":
            return True
    return False


def test_what_an_implementation_lacks_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """[FIX-15] Set-up that it lacks: not played. What it does not tell: left out. The exit code is 0."""
    driver = tmp_path / "driver.py"
    hello = {
        "type": "hello",
        "protocol": 1,
        "name": "d",
        "unsupported": ["client.budget", "run.expect.usage"],
    }
    text = (HERE / "broken_driver.py").read_text()
    driver.write_text(
        re.sub(r"    say\(.hello.*\n", f"    print({json.dumps(json.dumps(hello))}, flush=True)\n", text)
    )
    file = written(
        tmp_path,
        case("plain", run=[{"ask": "go", "expect": {"text": "plain"}}]),
        case("bounded", client={"budget": {"requests": 1}}),
        case("counted", run=[{"ask": "go", "expect": {"text": "counted", "usage": {"requests": 1}}}]),
        case("a late lack"),
    )
    assert cli(["conformance", file, "--json", "--driver", f"{sys.executable} -S {driver}"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["outcome"], row["why"]) for row in rows] == [
        ("ok", []),
        ("unsupported", ["client.budget"]),
        ("partly", ["run.expect.usage"]),
        ("unsupported", ["such things"]),
    ]


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        ("no-such-program-anywhere", "no-such-program-anywhere"),
        ("'unclosed", "No closing quotation"),
        ("true", "ended with code 0"),
        ("echo '{}'", "must begin with hello of protocol 1"),
        ("""echo '{"type": "hello", "protocol": 2}'""", "must begin with hello of protocol 1"),
        ("""echo '{"type": "hello", "protocol": 1}'""", "'name' is a required property"),
        ("""echo '{"type": "hello", "protocol": 1, "name": "x", "unsupported": 7}'""", "$.unsupported: 7"),
    ],
)
def test_what_is_no_driver_is_a_usage_error(
    driver: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """[FIX-16] Exit code 2, the command and the reason; nothing was played."""
    assert cli(["conformance", "--driver", driver]) == 2
    out, err = capsys.readouterr()
    assert out == "" and reason in err and "does not start" in err


def test_several_drivers_make_a_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """[FIX-17] A column for each, and below a line whose it is; the page has a table and the reasons."""
    said = {"replies": [{"text": "hello"}], "run": [{"ask": "go", "expect": {"text": "hello"}}]}
    good = case("good | bad", **said)
    file = written(tmp_path, good, case("other"))
    both = ["conformance", file, "--driver", "own", "--driver", " ".join(BROKEN)]
    assert cli([*both, "--only", "good"]) == 1
    first, detail, *last = capsys.readouterr().out.splitlines()
    assert first.split()[:2] == ["ok", "FAILED"] and detail.strip().startswith("broken ")
    assert [line.split(": ")[1] for line in last] == [
        "1 cases, 0 partly, 0 failed, 0 unsupported",
        "1 cases, 0 partly, 1 failed, 0 unsupported",
    ]
    assert cli([*both, "--markdown"]) == 1
    page = capsys.readouterr().out
    assert "| good \\| bad | ok | **failed** |" in page and "| other | ok | ok |" in page
    assert '* `run[0].text: expected "hello", got "good | bad"`' in page
    assert cli([*both, "--json", "--only", "other"]) == 0
    assert outcomes(capsys.readouterr().out) == [("other", "ok"), ("other", "ok")]


@pytest.mark.anyio
async def test_an_endpoint_tells_runs_apart_and_refuses_what_is_no_request(tmp_path: Path) -> None:
    """[FIX-18] The header names the run; a body of another style is answered 400, and fails the case."""
    driver = tmp_path / "driver.py"
    driver.write_text(
        "import json, sys, urllib.error, urllib.request\n"
        "def say(type, **more): print(json.dumps({'type': type, **more}), flush=True)\n"
        "def post(url, body, **headers):\n"
        "    request = urllib.request.Request(url, json.dumps(body).encode(), headers)\n"
        "    try: return json.load(urllib.request.urlopen(request))\n"
        "    except urllib.error.HTTPError as error: return {'status': error.code}\n"
        "say('hello', protocol=1, name='http', endpoint=True)\n"
        "for message in map(json.loads, sys.stdin):\n"
        "    if message['type'] == 'case': where = message['endpoint']; say('ready')\n"
        "    elif message['type'] == 'end': say('ended')\n"
        "    else:\n"
        "        ask = {'model': 'm', 'messages': [{'role': 'user', 'content': 'go'}]}\n"
        "        tool = {'model': 'm', 'messages': [{'role': 'tool', 'content': 'x'}]}\n"
        "        one = post(where['openai'] + '/chat/completions', ask)\n"
        "        below = {'conformance-path': 'main/reader.c1'}\n"
        "        two = post(where['anthropic'] + '/messages', ask, **below)\n"
        "        bad = post(where['anthropic'] + '/messages', tool) if message['ask'] == 'badly' else {}\n"
        "        text = one['choices'][0]['message']['content'] + two['content'][0]['text']\n"
        "        say('result', result={'text': text, 'turns': bad.get('status', 0)})\n"
    )

    async def start() -> Link:
        return await ProcessLink.start([sys.executable, str(driver)])

    replies: list[Any] = [
        {"when": {"depth": 0}, "text": "above "},
        {"when": {"agent": "reader"}, "text": "below"},
    ]
    expect: Any = {
        "requests": [{"of": {"path": "main/reader.c1", "turn": 1}, "are": {"depth": 1, "last": "go"}}]
    }
    steps = [{"ask": "well", "expect": {"text": "above below"}}]
    async with Player(start) as player:
        well = case("well", replies=replies, expect=expect, run=steps)
        assert list(mismatches(well, await player.play(well))) == []
        badly = case("badly", replies=replies, run=[{"ask": "badly", "expect": {"turns": 400}}])
        (line,) = mismatches(badly, await player.play(badly))
        assert "a request of its style" in line and "anthropic" in line


def test_the_matrix_has_every_case_and_ours_hold() -> None:
    """[FIX-19] Made anew after a case was added: `conformance/drivers/README.md` says how."""
    page = (home() / "MATRIX.md").read_text(encoding="utf-8")
    there = [(file, c["name"]) for file, c in ((label(p), c) for p in find() for c in load(p))]
    shown: list[tuple[str, str]] = []
    for section in page.split("\n## ")[1:]:
        file, *lines = section.splitlines()
        rows = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in lines if line.startswith("| ")][2:]
        shown += [(file, row[0].replace("\\|", "|")) for row in rows]
        assert {row[1] for row in rows} == {"ok"}, file
    assert shown == there


def test_the_protocol_page_explains_every_key() -> None:
    """[FIX-20] Every type and key that a driver may send is in DRIVER.md."""
    page = (home() / "DRIVER.md").read_text(encoding="utf-8")
    words = _words(validator("driver").schema)
    assert {"model", "abandoned", "messages"} <= words
    assert sorted(word for word in words if f"`{word}`" not in page and f'"{word}"' not in page) == []


def _words(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set[str]().union(*map(_words, cast("list[Any]", schema)))
    if not isinstance(schema, dict):
        return set()
    parts = cast("dict[str, Any]", schema)
    types = parts.get("properties", {}).get("type", {})
    said = {types["const"]} if "const" in types else set[str](types.get("enum", ()))
    return said.union(parts.get("properties", ()), *map(_words, parts.values()))


def test_both_families_are_there() -> None:
    """[FIX-21] Sub-agents from fan-out to cancel, and the contract from skills to metrics."""
    families = {(p.parent.name, p.stem) for p in find() if p.name != "fixture.json"}
    assert {name for family, name in families if family == "sub-agents"} == {
        "cancel",
        "escalation",
        "repeated",
        "resume",
    }
    assert {name for family, name in families if family == "contract"} == {
        "arguments",
        "builtin-results",
        "builtins",
        "declarations",
        "metrics",
        "skills",
        "translation",
    }


def test_the_wheel_carries_fixtures_and_schemas() -> None:
    """[FIX-22] Every fixture lies where an installation looks for it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    carried = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for path in find():
        part = path.relative_to(ROOT).as_posix()
        source = next(source for source in carried if part == source or part.startswith(f"{source}/"))
        data = "toolnexus/testing/conformance/data"
        assert carried[source] == (data if source == "conformance" else f"{data}/{source}")
    assert importlib.util.find_spec(command.__module__) is not None


def test_what_the_page_shows_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """[FIX-24] Every command but the one that plays everything, which FIX-01 does; and the fixture holds."""
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    (tmp_path / "fixture.json").write_text(re.findall(r"```json\n(.*?)```", page, re.DOTALL)[0])
    assert cli(["conformance", str(tmp_path)]) == 0
    whole, *commands = re.findall(r"^toolnexus (conformance.*)", page, re.MULTILINE)
    assert whole == "conformance" and len(commands) == 5
    for line in commands:
        words = [word.replace("python ", f"{sys.executable} ") for word in shlex.split(line)]
        assert cli(words) == (1 if "toy.py" in line else 0), capsys.readouterr()


def test_the_public_port_plays_through_the_same_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    """[FIX-23] Results in call order, wire shapes, a skill byte for byte; and a case that it fails."""
    driver = os.environ.get(PORT)
    if driver is None:
        pytest.skip(f"set {PORT} to what `python conformance/drivers/make_public_port.py FOLDER` prints")
    chosen = [
        "subagent-fanout: results stand in call order*",
        "contract/skills: the block names*",
        "contract/declarations: anthropic: a tool has*",
        "sub-agents/escalation: the nearest*",
        "contract/arguments: malformed*",
    ]
    assert cli(["conformance", "--json", "--driver", driver, "--only", "|".join(chosen)]) == 1
    told = [outcome for _, outcome in outcomes(capsys.readouterr().out)]
    assert sorted(told) == ["failed", "ok", "ok", "ok", "ok"]
